-- Shares of the slots, while more entries wait than there are slots within the horizon.
--
-- The crowd is the members that want slots: a sorted set by the instant at which they are forgotten. A member
-- has at most size tokens in hand: its even share of the horizon, but at least a few, so that a call is worth
-- it. If there is less than that for each member, the slots are tight, and members take turns.
--
-- A member that lacks tokens has a turn: a place in one long row of tokens. served is how many of the row have
-- had theirs, and tail is where the row ends. So before a turn that begins at start are start - served tokens,
-- and a member leaves room for these: it takes no slot later than ahead less their time. It is told to call
-- when all that it lacks fits into the horizon. So members that wait do not poll. Turns are a hash of
-- start:lack, which each member touches alone.
--
-- While slots are tight, a call that is granted a turn registers the next one behind the row, also where no
-- entry waits any more. A turn that is not used passes.
--
-- Members that do not come would leave the row standing. So when the horizon is not as full as it must be if
-- all came in time, the overdue part of the row is skipped, and a message calls those that are next. A
-- member that comes later than its turn goes at once. Some members call once before their turn, so that one
-- is there to notice.
--
-- If most members have gone at once, there may be none of these. So now and then a call tells all that the row goes on.
-- A member that has not been told so for long enough calls. It finds the horizon emptier than it must be, and that
-- none has called for a while. Then the row is skipped as a whole, and all that are left begin another one.
shares = { crowd = 1, served = 0, tail = 0, before = 0, keep = -1, wait = -1, due = 0, by = 0, turn = 0, turnIn = 0, silent = 0 }
local worth = 8     -- tokens that are worth a call
local swept = 16    -- members that a call forgets at most
local called = 1000 -- members that are called at once for turns that were skipped, about: the server must have time for them
local told = 1000   -- members that are told in a horizon that the row goes on
local farthest = 120 -- horizons after which a member calls at the latest

-- load counts the crowd, and finds the member's turn.
function shares.load()
  if not fresh then
    shares.served, shares.tail = state.get('served'), state.get('tail')
    if state.get('wanting') > now then shares.count() end
  end
  shares.divide()
end

function shares.count()
  local till = tonumber(redis.call('ZSCORE', crowdKey, me) or '0')
  shares.known = till > now
  shares.crowd = redis.call('ZCOUNT', crowdKey, '(' .. num(now), '+inf') + (shares.known and 0 or 1)
  if till == 0 then return end
  local start, lack = match(redis.call('HGET', turnsKey, me) or '', '^(%d+):(%d+)$')
  if start then shares.mine = { start = tonumber(start), lack = tonumber(lack) } end
end

-- divide sets how much a member may have in hand, and up to which instant slots are not left for members that have
-- waited longer.
function shares.divide()
  local room, interval = limits.room(req.horizon)
  local few = min(worth, ceil(room / 4))
  shares.interval, shares.tight = interval, interval > 0 and shares.crowd > 1 and floor(room / shares.crowd) < few
  if shares.tight then
    shares.size = adaptive.brief() and 1 or few -- no turn of more fits into a brief horizon
  else
    room = limits.room(req.ahead)
    shares.size = max(1, floor(room / shares.crowd))
  end
  shares.room = room
  if shares.crowd == 1 then
    shares.served = max(shares.served, shares.mine and shares.mine.start or shares.tail)
  elseif shares.tail > shares.served then
    shares.skip()
  end
  shares.goesOn()
  if shares.tight and shares.mine then shares.trim() end
  if not claim.mine then shares.before = shares.ahead() end
  shares.reach = max(0, req.ahead - ceil(shares.before * interval))
  -- A slot that is due now has found no member whose turn it is.
  if shares.tight and shares.before > 0 and limits.first(costs('1')) <= now then
    shares.reach = max(shares.reach, floor((shares.size - 1) * interval))
  end
end

-- pause returns how long no call may come in a row that goes on: so long a turn takes, and somewhat more.
function shares.pause() return floor(shares.size * shares.interval) + floor(req.horizon / 4) end

-- goesOn tells all members that the row goes on, and when they will be told next. Their clients are told one by one, so
-- that is done more rarely where there are many.
function shares.goesOn()
  if not shares.tight or shares.tail <= shares.served or state.get('goeson') > now then return end
  local again = floor(req.horizon * max(0.5, shares.crowd / told))
  state.set('goeson', now + again)
  messages.row = num(again + shares.pause())
end

-- silence returns for how long the member waits to be told that the row goes on.
function shares.silence() return max(0, state.get('goeson') - now) + shares.pause() end

-- trim gives up what the member's turn has beyond the present size: it began when there were fewer members.
function shares.trim()
  local mine, over = shares.mine, shares.mine.lack - shares.size
  if over <= 0 or mine.start > shares.served then return end
  shares.served = min(shares.tail, shares.served + over)
  mine.start, mine.lack = mine.start + over, shares.size
end

-- full reports whether the member has its share. has is the weight of its slots and of this entry, got that of the
-- slots of this call.
function shares.full(has, got)
  if shares.crowd == 1 then return false end
  if shares.tight then return got >= shares.allowed() or has > 2 * shares.size end
  return has > shares.size
end

-- allowed returns how much a member may get in its turn.
function shares.allowed() return shares.mine and shares.mine.lack or shares.size end

-- fits reports whether a slot at s may be taken. While slots are tight, a turn is taken as a whole: else each call would
-- be granted a slot or two.
function shares.fits(s, got, wish)
  if s > now + shares.reach then return false end
  if not shares.tight or got > 0 or s <= now + floor(req.ahead / 2) then return true end
  local whole = min(shares.mine and shares.mine.lack or shares.size, shares.size, wish)
  return s + floor((whole - 1) * shares.interval) <= now + req.ahead
end

-- ahead returns how many tokens of the row are before the member.
function shares.ahead() return max(0, (shares.mine and shares.mine.start or shares.tail) - shares.served) end

-- skip passes over the part of the row that has not come in time.
function shares.skip()
  if shares.interval == 0 then return end
  -- A member that is not tight calls when half of the horizon is free.
  local s, patience = limits.first(costs('1')), floor(req.ahead * (shares.tight and 1 or 3) / 4)
  if now - state.get('skipped') < patience or now < state.get('trusted') then return end
  local missing = floor((now + req.ahead - patience - s) / shares.interval)
  if missing <= 0 then return end
  local left = shares.tail - shares.served
  if shares.tight and now > state.get('goeson') + shares.pause() then
    missing = left
  elseif s <= now then
    -- Where no slot is in hand any more, the row is gone over ever faster.
    missing = max(missing, 2 * state.get('leap'))
  end
  missing = min(missing, left, ceil(called * left / shares.crowd))
  state.set('leap', s <= now and missing or 0)
  shares.served = shares.served + missing
  if missing == left then state.set('anew', shares.tail) end
  state.set('skipped', now)
  shares.call(s)
end

-- call tells all members when their turns come, if the next slot is at s, and how many tokens of the row fit before the
-- horizon ends.
function shares.call(s)
  local free = floor((now + req.ahead - s) / shares.interval)
  messages.turns = num(shares.served + free) .. ' ' .. num(shares.interval * 1000) .. ' ' .. num(max(0, free))
end

-- use takes what was granted out of the member's turn.
function shares.use(got)
  local mine = shares.mine
  if not mine or got == 0 or shares.used then return end
  shares.used = true
  local part = min(got, mine.lack)
  if not shares.passed() then shares.served = min(shares.tail, shares.served + part) end
  mine.start, mine.lack = mine.start + part, mine.lack - part
  if mine.lack <= 0 then shares.mine = nil end
end

-- passed reports whether the member's turn is in a row that was skipped as a whole.
function shares.passed() return shares.mine.start < state.get('anew') end

-- register sees to it that the member has a turn, for so many tokens at most, and has it wait until these fit into the
-- horizon after s.
function shares.register(s, lack, horizons)
  if shares.mine and shares.passed() then shares.mine = nil end
  shares.came = shares.mine and not shares.used
  if not shares.mine then
    -- The first ones of a row are told to come within a horizon or so, however the crowd grows.
    if shares.tail <= shares.served then
      state.set('trusted', now + req.horizon + floor(req.horizon / 4))
      state.set('goeson', now + floor(req.horizon / 2))
    end
    shares.mine = { start = shares.tail, lack = lack }
    shares.tail = shares.tail + lack
  end
  local mine = shares.mine
  if shares.tight then shares.tooEarly(s) end
  local tokens = shares.ahead() + max(0, min(mine.lack, lack, floor(shares.room / 2)) - 1)
  shares.keep, shares.turn = 2 ^ 50, mine.start + mine.lack
  if not shares.tight then
    shares.wait = max(0, s - now - req.ahead + min(floor(tokens * shares.interval), horizons * req.horizon))
    return
  end
  local till = s - now - req.ahead + floor(tokens * shares.interval)
  shares.wait = max(0, min(till, horizons * req.horizon) + floor(min(req.horizon / 50, req.ahead / 4))) -- so that it finds all that it lacks
  shares.turnIn, shares.silent = shares.wait, shares.silence()
  shares.appoint()
end

-- tooEarly corrects what members were told, if this one has come for its turn and finds no room, at s. If it is the
-- first of the row, less of the row has been served than was thought, as where others came later than their turn.
function shares.tooEarly(s)
  if not shares.came or shares.ahead() > 4 * shares.size then return end
  local mine = shares.mine
  if mine.start + 2 * shares.size < shares.served then
    -- Its turn was skipped. It is put before the row.
    mine.start = shares.served - mine.lack
  end
  shares.served = min(shares.served, mine.start)
  if now - state.get('skipped') >= floor(req.ahead / 4) then
    state.set('skipped', now)
    shares.call(s)
  end
end

-- appoint has the member call before its turn, if there is none that does so soon.
function shares.appoint()
  local last, apart = state.get('check'), floor(req.horizon / 2)
  if last > now + req.horizon or shares.wait < 2 * req.horizon then return end
  local at = max(now + apart, last + apart)
  if at < now + shares.wait then
    shares.wait = at - now
    state.set('check', at)
  end
end

-- putOff has the member wait: the next slot, at s, is too far away, or the member has its share. has is the weight of
-- its slots, got of those of this call, wish of the entries that have none, and block says that they wait for a window.
function shares.putOff(s, cost, full, block, has, got, wish, first)
  local ahead, horizon, allowed = req.ahead, req.horizon, shares.allowed()
  shares.use(got)
  shares.wait, shares.due, shares.by = max(0, s - now - ahead), s - now, limits.latest(cost)
  shares.keep = max(1, floor(shares.size / 8))
  if full and not shares.tight then
    shares.wait, shares.keep = 0, floor(shares.size / 8)
    return
  elseif full and got < allowed then
    shares.wait, shares.keep = 0, shares.size
    return
  end
  -- Lighter entries would take the tokens that it waits for.
  local heavy = cost[max(shares.by, 1)] > 1
  if not full and s > now + ahead and (heavy or block and shares.room < shares.crowd) then
    -- The member calls once a horizon to keep its claim.
    claim.stake('tokens', now + min(shares.wait, horizon) + floor(horizon / 2), cost.n, first)
    if claim.staked then shares.wait = min(shares.wait, horizon) end
  end
  if claim.staked then
    shares.keep = 2 ^ 50
  elseif shares.tight then
    shares.register(s, min(shares.size, got + wish), farthest) -- most likely as many entries come again
  elseif 4 * has < 3 * shares.size then
    -- Members before it may go in the meantime, so it calls once a horizon at least.
    shares.register(s, min(shares.size - has, wish), 1)
  end
end

-- goOn registers the next turn of a member whose entries were all decided in its turn.
function shares.goOn(got)
  local had = shares.mine ~= nil
  shares.use(got)
  if had and got > 0 and shares.tight and not shares.mine then
    shares.register(limits.first(costs('1')), min(shares.size, got), farthest)
  end
end

-- forget forgets a member that has left, or has not come again.
local function forget(name)
  redis.call('ZREM', crowdKey, name)
  redis.call('HDEL', turnsKey, name)
end

-- plan decides what is to be noted of the member: until when it is in the crowd, or 0 if it leaves, or nil if nothing
-- changes. It reports whether something is to be written.
function shares.plan(got, asks, inhand)
  if not shares.stopped and asks then shares.goOn(got) end
  local till = now + 2 * req.horizon
  if shares.keep >= 0 then
    shares.till = till + max(0, shares.wait, shares.turnIn)
  elseif shares.crowd == 1 and inhand == 0 and not req.mute and not shares.mine then
    -- It is alone, and lacks nothing: there is no crowd.
    if shares.known then shares.till = 0 end
    if state.get('wanting') > now then state.set('wanting', now) end
  elseif shares.known and not asks and inhand == 0 and not req.mute and not shares.mine then
    shares.till = 0
  elseif shares.known and shares.used then
    shares.till = till
  end
  if shares.till and shares.till > state.get('wanting') then state.set('wanting', shares.till) end
  if shares.tail > 0 then
    state.set('served', shares.served)
    state.set('tail', shares.tail)
  end
  return shares.till ~= nil
end

function shares.save(ttl)
  if fresh then redis.call('DEL', crowdKey, turnsKey) end
  if shares.till == nil then return end
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', crowdKey, '-inf', num(now), 'LIMIT', '0', num(swept))) do forget(name) end
  if shares.till == 0 then
    forget(me)
    return
  end
  redis.call('ZADD', crowdKey, num(shares.till), me)
  redis.call('PEXPIRE', crowdKey, ttl)
  if shares.mine then
    redis.call('HSET', turnsKey, me, num(shares.mine.start) .. ':' .. num(shares.mine.lack))
    redis.call('PEXPIRE', turnsKey, ttl)
  else
    redis.call('HDEL', turnsKey, me)
  end
end
