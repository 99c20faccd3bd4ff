-- The state is a hash. All that a limit depends on is in this one key, so that no part of it can be evicted
-- alone. These are its fields; i is the number of a limit:
--   epoch run seen seq which life of the server and of the state this is, the latest instant of it, and how often it was
--                      written
--   plan version numbers older before overlap told   the limits and their version; the text of the version before and
--                      its numbers; until when members of both are about, and when members were told so last
--   gen cuts           the generation, and where the last few have cut off the one before
--   last quiet         the newest slot; until when slots may be in use that are forgotten here
--   hold heldat resumed ended   see 3_epochs.lua
--   ti fi              schedule of a bucket: the instant at which it is full, and a part of a microsecond more
--   di                 how full the bucket was, and when, for entries that are settled for less
--   hi                 during a hold: the schedule as it would be without the hold and without the slots handed out
--                      since, and the schedule that this goes with
--   ai ii ci bi ki ui  an adaptive limit: what it knows, packed; interval, its mark, the mark after the last throttle,
--                      throttled generations in a row, and whether it has given up
--   xi                 how much longer the span of a limit is, until when, how much after that, and for how long
--   wi:end             what a window has granted in the cell with that end, the latest instant of it, and until when any
--                      member counts it
--   grace short claim  units: until when none is given; until when they are scarcer than slots; who waits first
--   members held lacked wanters theirs   units: how many members are noted, what they hold and lack together, how
--                      many of these lack some, and what those hold
--   served tail   the row of turns, see 8_shares.lua
--   wanting            until when the last member of the crowd is in it
--   skipped leap trusted   when members were called to their turns, how much was skipped then, and before
--                      when nothing is
--   goeson anew        when members are told that the row goes on, and the turns before that are in a row that was
--                      skipped as a whole
--   check              when a member calls before its turn
--   serial             numbers the slots given back
--   calm quick         see 8b_calm.lua; quick comes before the fields seq, seen, last, ti, fi, di and wi:end, which may be
--                      older, or missing
state = { stored = {}, written = {}, gone = {} }

function state.load()
  local flat = redis.call('HGETALL', stateKey)
  for i = 1, #flat, 2 do state.stored[flat[i]] = flat[i + 1] end
  if state.stored.quick then state.unpack(state.stored.quick) end
end

-- unpack takes in what quick.lua has written. It counts as changed: what is older in the other fields is written
-- over with the next change.
function state.unpack(quick)
  local seq, seen, last, _, at = struct.unpack('>dddd', quick)
  state.stored.seq, state.stored.seen = num(seq), num(seen) -- these are written with any change
  state.set('last', last)
  local i, cells = 0, {}
  while at <= #quick do
    local kind
    kind, at, i = struct.unpack('>B', quick, at), at + 1, i + 1
    if kind == 0 then
      at = state.unpackBucket(quick, at, i)
    else
      at = state.unpackWindow(quick, at, i, cells)
    end
  end
  for name in pairs(state.stored) do
    if match(name, '^w%d') and not cells[name] then
      state.stored[name], state.gone[name] = nil, true
    end
  end
  for name, value in pairs(cells) do state.set(name, value) end
end

function state.unpackBucket(quick, at, i)
  local tat, part, count, lows
  tat, part, count, at = struct.unpack('>ddB', quick, at)
  lows = {}
  for k = 1, count do
    local instant, debt
    instant, debt, at = struct.unpack('>dd', quick, at)
    lows[k] = num(instant) .. ':' .. num(debt)
  end
  state.set('t' .. i, tat)
  state.set('f' .. i, part)
  state.set('d' .. i, table.concat(lows, ' '))
  return at
end

-- unpackWindow adds the cells of a window to cells, by the names of their fields. A calm state keeps none for longer
-- than its window counts it.
function state.unpackWindow(quick, at, i, cells)
  local size, span, _
  span, _, size, at = struct.unpack('>ddH', quick, at)
  for _ = 1, size do
    local e, count, last
    e, count, last, at = struct.unpack('>ddd', quick, at)
    cells['w' .. i .. ':' .. num(e)] = num(count) .. ':' .. num(last) .. ':' .. num(last + span)
  end
  return at
end

-- forget begins with an empty state.
function state.forget()
  for name in pairs(state.stored) do state.gone[name] = true end
  state.stored = {}
end

-- has reports whether there is a field with such a name after this call.
function state.has(pattern)
  for name in pairs(state.stored) do
    if match(name, pattern) and not state.gone[name] then return true end
  end
  return false
end

function state.text(name) return state.stored[name] end
function state.get(name) return tonumber(state.stored[name] or '0') end

function state.set(name, value)
  value = type(value) == 'number' and num(value) or value
  if state.stored[name] ~= value then
    state.stored[name] = value
    state.written[name] = value
  end
end

-- drop deletes a field.
function state.drop(name)
  state.gone[name] = true
  state.written[name] = nil
end

-- save writes what has changed, and reports whether there was anything. ends is until when the state is needed. That is
-- written first: a member that may not do so has written nothing, and so has one that finds no memory after that.
function state.save(ends, must)
  local fields = {}
  for name, value in pairs(state.written) do
    state.gone[name] = nil
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  end
  if #fields == 0 and not must then return false end
  -- Other members may have limits that this one does not know of.
  local ttl = floor(max(0, ends - now) / 1000) + 1000 + floor(req.horizon / 1000)
  state.ttl = num(max(ttl, redis.call('PTTL', stateKey)))
  local there = redis.call('PEXPIRE', stateKey, state.ttl) == 1
  state.seq = state.get('seq') + 1
  redis.call('HSET', stateKey, 'seen', num(now), 'seq', num(state.seq), unpack(fields))
  state.gone.seen, state.gone.seq = nil, nil
  for name in pairs(state.gone) do redis.call('HDEL', stateKey, name) end
  if not there then redis.call('PEXPIRE', stateKey, state.ttl) end
  return true
end
