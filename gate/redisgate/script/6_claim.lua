-- A claim keeps later entries, of any member, from overtaking an entry for ever. There is one claim at
-- a time, the oldest. The first waiter of a member may make it while it waits for one of these:
--   units    its member has less than its share, or it needs more than a share
--   tokens   more than one token of a limit, or a window that has less than one token for each member
claim = {}
claim.pattern = '^(%w+):(%d+):(%d+):(%d+):(%a+)$'

function claim.load()
  claim.came = now - req.waited
  local by, since, till, cost, kind = match(state.text('claim') or '', claim.pattern)
  if not by or tonumber(till) <= now then return end
  local c = { since = tonumber(since), till = tonumber(till), cost = tonumber(cost), kind = kind }
  claim.mine = by == me
  if not claim.mine then claim.other = c end
end

-- stake makes the claim, if there is no older one. first says that it is for the first waiter.
function claim.stake(kind, till, cost, first)
  local from = first and claim.came or now
  if claim.other and claim.other.since <= from then return end
  claim.staked = true
  state.set('claim', me .. ':' .. num(from) .. ':' .. num(till) .. ':' .. num(cost) .. ':' .. kind)
end

-- goesFirst reports whether another member has claimed the next tokens.
function claim.goesFirst()
  local other = claim.other
  return other and other.kind == 'tokens' and other.since < claim.came
end

-- release drops the member's claim if this call has not made it again.
function claim.release()
  if state.text('claim') and match(state.text('claim'), claim.pattern) == me and not req.mute and not claim.staked then
    state.set('claim', '')
    messages.free = me
  end
end
