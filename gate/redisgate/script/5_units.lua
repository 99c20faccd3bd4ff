-- A limit of units in use at once. Members lease units, and renew the lease with each call. Its fields in a request:
--   n ttl     units, and how long a lease lasts without a call
--   used      units that the member keeps
--   apart     each slot comes with its units, unless this is set: then only slots within lead need theirs
--   more      units that it needs besides, for slots in hand
--   idle      kept units that no slot needs yet
--   likes     units that it would take besides, if no other member needs them
--   starved   a slot was due and had no unit
units = { others = 0, free = 0, allowed = 0, cap = 0, lacking = 0, over = {}, mine = { held = 0, want = 0 } }

-- of returns how many units an entry of that cost takes.
function units.of(cost) return limits.units and cost[limits.units.number] or 0 end

-- grace returns until when no unit is given: members may hold some that are forgotten here.
function units.grace() return state.get('grace') end

function units.rest()
  local l = limits.units
  if l and fresh and forgotten + l.ttl > now then state.set('grace', forgotten + l.ttl) end
end

-- Each member is one field of the hash of units, till:held:want:call, and is touched by its own calls. The set of
-- leases has the same members by till, so that a call finds those that are over. The state has the sums. If the two
-- keys and the sums do not agree, a key was evicted or deleted: then no unit is given for as long as a lease.
local sums = { 'members', 'held', 'lacked', 'wanters', 'theirs' }

-- count changes the sums by a member, for 1, or without it, for -1.
function units.count(held, want, by)
  local t = units.total
  t.members, t.held, t.lacked = t.members + by, t.held + by * held, t.lacked + by * want
  if want > 0 then t.wanters, t.theirs = t.wanters + by, t.theirs + by * held end
end

local function parse(value)
  local till, held, want, call = match(value or '', '^(%d+):(%d+):(%d+):(%d+)$')
  return { till = tonumber(till or '0'), held = tonumber(held or '0'), want = tonumber(want or '0'), call = tonumber(call or '-1') }
end

-- agree reports whether the keys of units are those that the state counts.
local function agree(count)
  return redis.call('HLEN', unitsKey) == count and redis.call('ZCARD', leasesKey) == count
end

-- sweep forgets some of the members with a lease that is over.
function units.sweep()
  units.over = {}
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', leasesKey, '-inf', num(now), 'LIMIT', '0', '16')) do
    if name ~= me then
      local m = parse(redis.call('HGET', unitsKey, name))
      units.count(m.held, m.want, -1)
      units.over[#units.over + 1] = name
      if m.held > 0 then messages.free = me end
    end
  end
end

-- nextOver returns when the next lease of another member ends, or nil.
local function nextOver()
  local list = redis.call('ZRANGEBYSCORE', leasesKey, '(' .. num(now), '+inf', 'WITHSCORES', 'LIMIT', '0', '2')
  if list[1] and list[1] ~= me then return tonumber(list[2]) end
  return list[3] and tonumber(list[4])
end

-- load takes in what all members hold and want. It returns false if this call was under way for so long that its
-- member gave it up and has called again: what it says of units is out of date.
function units.load()
  local l = limits.units
  if not l then return true end
  units.total = {}
  for _, name in ipairs(sums) do units.total[name] = state.get(name) end
  units.anew = fresh or not agree(units.total.members)
  if units.anew then
    for _, name in ipairs(sums) do units.total[name] = 0 end
    if not fresh then state.set('grace', max(units.grace(), now + l.ttl)) end
  else
    local noted = redis.call('HGET', unitsKey, me)
    units.mine, units.noted = parse(noted), noted and true
    if req.call <= units.mine.call then return false end
    if noted then units.count(units.mine.held, units.mine.want, -1) end
    units.sweep()
    units.expires = nextOver()
  end
  units.others, units.wanted = units.total.held, units.total.wanters > 0
  if not units.wanted then messages.free = nil end
  units.free = units.grace() > now and 0 or max(0, l.n - units.others - l.used)
  return true
end

-- fairLevel returns how many units a member may have that wants as many or more. If members want more units
-- than there are, each gets the same share: at least that of all members, or that of those that lack some in what
-- the others leave. It goes by sums, so it may be less than exact where these members want unlike numbers.
function units.fairLevel(want)
  local l, t = limits.units, units.total
  local mine = l.used + want
  if mine + t.held + t.lacked <= l.n then return l.n end
  local rest = l.n - (t.held - t.theirs)
  local level = max(floor(l.n / (t.members + 1)), floor(rest / (t.wanters + 1)))
  if t.wanters > 0 and mine < level then level = max(level, floor((rest - mine) / t.wanters)) end
  return max(0, level)
end

-- share sets what the member may take if it wants so many units, of which the first waiter needs so
-- many, and how many it may have at once.
function units.share(want, first)
  local l, t = limits.units, units.total
  local level = units.fairLevel(want)
  local reserved = max(0, min(t.lacked, t.wanters * level - t.theirs))
  -- A member with more than its share gets none, and keeps what it has.
  local allowed = max(0, min(units.free, max(level - l.used, units.free - reserved)))
  local cap, other = max(level, l.n - units.others - reserved), claim.other
  local claimed = other and other.kind == 'units'
  if claimed then cap = min(cap, max(0, l.n - units.others - other.cost)) end
  if claimed and (other.since < claim.came or l.used > 0 and first <= level) then
    allowed = min(allowed, max(0, units.free - other.cost))
  elseif first > level and units.free >= first then
    allowed = max(allowed, first)
  end
  units.level, units.allowed, units.cap = level, allowed, cap
end

-- within reports whether there are units for one more entry: idle ones, or free ones. taken are those that entries
-- of this call have.
function units.within(need, taken)
  local l = limits.units
  if l.apart then return need <= l.idle + max(0, units.allowed - units.lacking) end
  return need <= units.allowed - taken
end

-- occupy notes that an entry needs its units now.
function units.occupy(need)
  local l = limits.units
  local has = min(need, l.idle)
  l.idle = l.idle - has
  units.lacking = units.lacking + need - has
end

-- shorten notes that for a horizon, units are scarcer than slots: slots handed out ahead would pass
-- unused.
function units.shorten()
  if not paced then return end
  if state.get('short') <= now then messages.short = me end
  state.set('short', now + req.horizon)
end

-- nextChance returns how long until units may fall free without a message, or -1.
function units.nextChance(least)
  local at = units.grace() > now and units.grace() or units.expires
  return at and max(least, at - now) or -1
end

-- settleUp notes what the member holds and wants after this call: taken are the units of the entries in it,
-- attempts those of tries among them, want is all that was asked for, and tried what tries asked for. It returns
-- the units that the member got and when it may ask again.
function units.settleUp(taken, attempts, want, tried)
  local l = limits.units
  if l.apart then
    taken = min(units.allowed, units.lacking)
    if units.lacking > 0 and taken == units.lacking then
      taken = max(taken, min(units.allowed, taken + l.likes))
      units.lacking = taken
    end
  end
  local held = l.used + taken
  local unmet = l.apart and units.lacking - taken or want - tried - (taken - attempts)
  if held < units.mine.held and units.wanted then messages.free = me end
  if unmet > 0 and (l.apart or units.mine.want == 0) and units.others > 0 then messages.wanted = me end
  units.held, units.unmet = held, max(0, unmet)
  return taken, unmet > 0 and units.nextChance(1) or 0
end

-- save returns until when the state is needed, and whether a field was written.
function units.save()
  local l = limits.units
  if not l then return 0, false end
  units.keeps = units.held + units.unmet > 0
  if units.keeps then units.count(units.held, units.unmet, 1) end
  for _, name in ipairs(sums) do
    if units.total[name] > 0 or state.text(name) then state.set(name, units.total[name]) end
  end
  local ends = max(units.grace(), units.keeps and now + l.ttl or 0)
  return ends, units.keeps or units.noted or units.anew or #units.over > 0
end

-- saveLease writes what the member holds.
function units.saveLease(ttl)
  local l = limits.units
  if not l then return end
  if units.anew then redis.call('DEL', unitsKey, leasesKey) end
  for _, name in ipairs(units.over) do
    redis.call('HDEL', unitsKey, name)
    redis.call('ZREM', leasesKey, name)
  end
  if units.keeps then
    local till = num(now + l.ttl)
    redis.call('HSET', unitsKey, me, till .. ':' .. num(units.held) .. ':' .. num(units.unmet) .. ':' .. num(req.call))
    redis.call('ZADD', leasesKey, till, me)
    redis.call('PEXPIRE', unitsKey, ttl)
    redis.call('PEXPIRE', leasesKey, ttl)
  elseif units.noted then
    redis.call('HDEL', unitsKey, me)
    redis.call('ZREM', leasesKey, me)
  end
end
