-- Slots that were given back are handed out first. If none took such a slot in time, its tokens count as never
-- taken. An element of the sorted set is instant:cost:serial, or instant:0:serial:c1:c2:… with a number for each
-- limit; its score is the instant. A release without such costs has no use for the second, and lets its tokens
-- lapse.
back = { list = {}, fresh = {}, none = {}, at = 1, most = 64 } -- most: a call looks at so many at most

-- give takes a slot of this generation that is still to come.
function back.give(instant, cost)
  back.fresh[#back.fresh + 1] = { instant = instant, left = { unpack(cost) } }
end

-- lapse settles slots that have passed, the last one first: see bucket.settle.
function back.lapse(list)
  for i = #list, 1, -1 do limits.settle(list[i].instant, negative(list[i].left), false) end
end

local function read(element)
  local instant, cost, several = match(element, '^(%d+):(%d+):%d+(:?.*)$')
  return { instant = tonumber(instant), left = { unpack(costs(several == '' and cost or cost .. several)) }, element = element }
end

-- range returns some of the slots of the set.
local function range(from, to)
  local list = redis.call('ZRANGEBYSCORE', backKey, from, to, 'LIMIT', '0', num(back.most))
  for i, element in ipairs(list) do list[i] = read(element) end
  return list
end

function back.load()
  back.changed = #back.fresh > 0
  back.stale = messages.replanned or fresh
  if back.stale then return end
  back.lapsed = range('-inf', '(' .. num(now))
  back.lapse(back.lapsed)
  back.changed = back.changed or #back.lapsed > 0
  back.list = range(num(now), '+inf')
  if #back.fresh > 0 then
    for _, b in ipairs(back.fresh) do back.list[#back.list + 1] = b end
    table.sort(back.list, function(x, y) return x.instant < y.instant end)
  end
end

-- some returns the most that is left of a slot at any limit, and whether it is the same at all of them. Units are
-- counted apart.
function back.some(left)
  local most, least = 0, nil
  for i, l in ipairs(limits) do
    if l ~= limits.units then
      most = max(most, left[i])
      least = min(least or left[i], left[i])
    end
  end
  return most, most == least
end

-- fits reports whether what is left of a slot is enough for an entry.
function back.fits(left, cost)
  for i, l in ipairs(limits) do
    if l ~= limits.units and cost[i] > left[i] then return false end
  end
  return true
end

-- next returns the first slot, not before s, that is enough for an entry of that cost until the instant, or nil. For a
-- cost without one, it does not look again.
function back.next(cost, s, till)
  local list = back.list
  while list[back.at] and (list[back.at].instant < s or back.some(list[back.at].left) == 0) do back.at = back.at + 1 end
  if till <= (back.none[cost] or 0) then return nil end
  for i = back.at, #list do
    local b = list[i]
    if b.instant > till then break end
    if back.fits(b.left, cost) then return b end
  end
  back.none[cost] = till
  return nil
end

-- remain reports whether there are slots that another entry may get.
function back.remain()
  for _, b in ipairs(back.list) do
    if back.some(b.left) > 0 then return true end
  end
  return false
end

function back.take(b, cost)
  for i = 1, #limits do b.left[i] = b.left[i] - cost[i] end
  b.used, back.changed = true, true
  return b.instant
end

-- saveOne writes what is left of a slot.
function back.saveOne(b, serial)
  local left, alike = back.some(b.left)
  if left > 0 and (b.used or not b.element) then
    local name = num(b.instant) .. ':' .. num(alike and left or 0) .. ':' .. num(serial)
    if not alike then
      for k, l in ipairs(limits) do name = name .. ':' .. num(l == limits.units and 0 or b.left[k]) end
    end
    redis.call('ZADD', backKey, num(b.instant), name)
  end
  if b.element and b.used then redis.call('ZREM', backKey, b.element) end
end

-- number numbers the slots that are written.
function back.number()
  back.serial = state.get('serial')
  if back.changed and not back.stale then state.set('serial', back.serial + #back.list) end
end

function back.save(ttl)
  if back.stale then
    redis.call('DEL', backKey)
  elseif back.changed then
    for i, b in ipairs(back.list) do back.saveOne(b, back.serial + i) end
    for _, b in ipairs(back.lapsed) do redis.call('ZREM', backKey, b.element) end
    redis.call('PEXPIRE', backKey, ttl)
  end
end
