-- The decision on entries that need not wait for other members, for a fraction of the price of the script in folder
-- script. This does what that would do, or it returns nothing and writes nothing: then the member calls that. It looks
-- at calm states alone, see script/8b_calm.lua, and at states that are not there and have run out.
--
-- KEYS  1 state (hash)
--       for a state that may not be there, those of the script besides:
--       2 slots given back, 3 crowd, 4 turns, 5 since when this server has lost no key
-- ARGV  1 epoch:gen:version:plan: that the member knows, or 0:0:version:plan:; plan is the SHA-1 of the text of the limits
--       2 packed: how often the state had been written by the last answer, number of entries, how late a slot may be used,
--         horizon, how far away a slot may be, and before which instant the answer comes too late, or 0; -1: these are tries,
--         whose refusal is answered, too; then for each limit
--         its kind, span n most, and the cost of an entry. most is the burst of a bucket, and the length of a cell of a window
--       for a state that may not be there: 3 text of the limits, 4 what a member of another version has to know of them
-- The reply is packed: now, how often the state was written, how long the server keeps it, and epoch and gen if the text
-- of the limits was given. Then for each limit what members carry, see debts in script/1_wire.lua. Then for each entry the
-- delay of its slot, unless all of them are due now.
-- If tries are refused, the reply is '!', and packed: now, how often the state was written, how long the server keeps it, how
-- far away the newest slot is, and the next one, and the limit that this one waits for. Then what members carry.
--
-- run is what the server calls its data, see 3_epochs.lua. To ask for it costs as much as a third of the rest, so a
-- function asks once a horizon, and keeps the answer in its process. It is not in the data, so it is neither stored nor
-- replicated: a server that was started, or has all its data from another one, asks. There is one way to another name
-- without that: a server that is the master, then a replica, and the master again, and was never so far behind that
-- it needed all data. What was granted by the master in between may not be here. But that master has another name, so
-- it granted no slot for a horizon after its first call. So an answer is good for slots until a horizon later, and a
-- state that begins under it has the old name, which is void by the next answer. As a script, this asks each time.
local run, checked
local started -- this server was there at that instant, at the latest

-- The first call sets these: a library that is loaded has none of them yet, and to look them up takes a quarter of the time.
local call, max, floor, pack, unpack, sub, match, format

-- divide returns floor(a/b) and the rest, exactly.
local function divide(a, b)
  local q = floor(a / b)
  local r = a - q * b
  if r < 0 then return q - 1, r + b end
  if r >= b then return q + 1, r - b end
  return q, r
end

-- The two kinds of limits. Each has
--   load   takes in the packed state at a place, or an empty one if there is none; returns the place behind it
--   due    the first instant, not before s, at which the entry may go; or nil, if the script is to say that
--   take   counts the entry at the instant; false if the script is to do that
--   save   returns the packed state, until when it is needed, and what members carry
local bucket, window = {}, {}
local kinds = { [0] = bucket, [1] = window }

function bucket.load(l, state, at)
  if not state then return at end
  local size
  l.tat, l.part, size, at = unpack('>ddB', state, at + 1)
  l.lows = sub(state, at, at + 16 * size - 1)
  return at + 16 * size
end

function bucket.due(l, s)
  if l.cost > l.most or l.part >= l.n then return nil end
  local q, r = divide(l.part + (l.cost - l.most) * l.span, l.n)
  return max(s, l.tat + q + (r > 0 and 1 or 0))
end

-- low is bucket.low of the script, for lows that are packed. whole is what an empty bucket lacks.
local function low(lows, instant, debt, whole)
  debt = max(0, debt)
  if debt >= whole then return lows end
  while #lows > 0 and unpack('>d', lows, #lows - 7) >= debt do lows = sub(lows, 1, -17) end
  if #lows > 0 and unpack('>d', lows, #lows - 15) == instant then return lows end
  lows = lows .. pack('>dd', instant, debt)
  if #lows > 256 then lows = sub(lows, 17, 24) .. sub(lows, 9, 16) .. sub(lows, 33) end
  return lows
end

function bucket.take(l, s)
  l.lows = low(l.lows, s, l.tat - s, l.most * l.span / l.n)
  if l.tat < s then l.tat, l.part = s, 0 end
  local q
  q, l.part = divide(l.part + l.cost * l.span, l.n)
  l.tat = l.tat + q
  return true
end

function bucket.save(l, now) return pack('>BddB', 0, l.tat, l.part, #l.lows / 16) .. l.lows, l.tat, l.tat - now end

-- Of a window, the cells are packed in order of time: end count last. Those that count no more are left out.
function window.load(l, state, at, now)
  l.cells, l.total = '', 0
  if not state then return at end
  local size, _
  _, l.total, size, at = unpack('>ddH', state, at + 1)
  local to = at + 24 * size
  while at < to do
    local _, count, latest = unpack('>ddd', state, at)
    if latest + l.span > now then break end
    l.total, at = l.total - count, at + 24
  end
  l.cells = sub(state, at, to - 1)
  return to
end

function window.due(l, s)
  if l.total + l.cost <= l.n then return s end
end

function window.take(l, s)
  local e, count, latest, cells = (floor(s / l.most) + 1) * l.most, l.cost, s, l.cells
  if #cells > 0 then
    local is, has, newest = unpack('>ddd', cells, #cells - 23)
    if is > e then return false end
    if is == e then
      count, latest, cells = count + has, max(latest, newest), sub(cells, 1, -25)
    end
  end
  l.cells, l.total, l.latest = cells .. pack('>ddd', e, count, latest), l.total + l.cost, latest
  return true
end

function window.save(l) return pack('>BddH', 1, l.span, l.total, #l.cells / 24) .. l.cells, l.latest + l.span, l.total end

-- begins returns the epoch of a state that is not there, and what the members of it know, or nothing unless it has run
-- out for sure. That is what plan.begin of the script does if there is no grace.
local function begins(life, known, now, horizon, late)
  if not started then
    local seconds = match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)') or '3600'
    started = now - max(0, tonumber(seconds) - 1) * 1000000
  end
  local of, since = match(call('GET', life) or '', '^(%w+):(%d+)$')
  since = tonumber(since)
  if of ~= run or since > now or max(since, started) + horizon + late > now then return end
  if call('PTTL', life) < 43200000 then call('PEXPIRE', life, '86400000') end
  local epoch, rest = match(known, '^(%d+):%d+:(.*)$')
  epoch = max(now, epoch + 1)
  return epoch, format('%.0f:0:%s', epoch, rest)
end

-- ask asks what the server calls its data.
local function ask(now) run, checked = match(redis.call('INFO', 'replication'), 'master_replid:(%w+)'), now end

-- refuse is what the script says of a try that has no slot before that instant. It writes nothing.
local function refuse(limits, now, seq, last, late, due)
  local at, by, ends, debts = now, 0, max(last, now) + late, ''
  for i, l in ipairs(limits) do
    local opens = l.kind.due(l, 0)
    if l.cells then
      l.latest = -l.span -- there may be none
      if #l.cells > 0 then l.latest = unpack('>d', l.cells, #l.cells - 7) end
    end
    if opens > at then at, by = opens, i end
    local _, needed, debt = l.kind.save(l, now)
    ends, debts = max(ends, needed), debts .. pack('>d', max(0, debt))
  end
  return '!' .. pack('>dddddd', now, seq, ends - now, last - now, due - now, by) .. debts
end

local function quick(KEYS, ARGV)
  if not call then
    call, max, floor = redis.call, math.max, math.floor
    pack, unpack, sub, match, format = struct.pack, struct.unpack, string.sub, string.match, string.format
  end
  local known, asked, fields = ARGV[1], ARGV[2], call('HMGET', KEYS[1], 'calm', 'quick')
  local calm, state = fields[1], fields[2]
  if not calm and (not ARGV[3] or call('PTTL', KEYS[1]) ~= -2) then return end
  local clock = redis.call('TIME')
  local now = clock[1] * 1000000 + clock[2]
  local knows, count, late, horizon, ahead, behind, arg = unpack('>dddddd', asked)
  local read = now
  if not run or now < checked or now - checked >= horizon then ask(read) end
  local epoch, gen
  local seq, seen, last, till, at = 0, 0, 0, 0, 1
  if calm then
    if calm ~= known .. run then
      if not ARGV[3] or sub(known, 1, 4) ~= '0:0:' then return end
      local rest
      epoch, gen, rest = match(calm, '^(%d+):(%d+):(.*)$')
      if rest ~= sub(known, 5) .. run then return end
    end
    seq, seen, last, till, at = unpack('>dddd', state)
    if seq < knows or now < seen - 1000000 then return end
    now = max(now, seen)
  else
    epoch, known = begins(KEYS[5], known, now, horizon, late)
    if not epoch then return end
    gen = 0
  end

  local limits, delays = {}, ''
  while arg <= #asked do
    local kind, span, n, most, cost
    kind, span, n, most, cost, arg = unpack('>Bdddd', asked, arg)
    kind = kinds[kind]
    local l = { kind = kind, span = span, n = n, most = most, cost = cost, tat = 0, part = 0, lows = '' }
    at = kind.load(l, state, at, now)
    limits[#limits + 1] = l
  end
  local all, newest = #limits, last
  last = max(last, now)
  for k = 1, count do
    for i = 1, all do
      local l = limits[i]
      last = l.kind.due(l, last)
      if not last then return end
    end
    last = max(last, behind)
    if last > now + ahead then
      if k == 1 and behind < 0 and calm and not epoch then return refuse(limits, now, seq, newest, late, last) end
      return
    end
    for i = 1, all do
      local l = limits[i]
      if not l.kind.take(l, last) then return end
    end
    if last > now then
      if delays == '' then delays = string.rep('\0', 8 * k - 8) end
      delays = delays .. pack('>d', last - now)
    end
  end

  if last > checked + horizon then
    local was = run
    ask(read)
    if run ~= was then return end
  end

  local ends, written, debts = last + late, '', ''
  for i = 1, all do
    local l = limits[i]
    local text, needed, debt = l.kind.save(l, now)
    ends, written, debts = max(ends, needed), written .. text, debts .. pack('>d', debt)
  end
  seq = seq + 1
  local reply = pack('>ddd', now, seq, ends - now)
  if ARGV[3] then
    if not epoch then epoch, gen = match(known, '^(%d+):(%d+):') end
    reply = reply .. pack('>dd', epoch, gen)
  end
  local life = floor((ends - now) / 1000) + 1000 + floor(horizon / 1000)
  if not calm then
    -- The expiry comes first, as in state.save: a member that may not set it writes nothing.
    till = now + life * 1000
    call('PEXPIRE', KEYS[1], life)
    call('DEL', KEYS[2], KEYS[3], KEYS[4])
    call('HSET', KEYS[1], 'epoch', format('%.0f', epoch), 'run', run, 'plan', ARGV[3], 'numbers', ARGV[4],
      'version', match(known, ':%d+:(%d+):'), 'calm', known .. run)
  elseif till - now < life * 1000 then
    life = life + 10000 -- so that keys that are used every few seconds stay calm
    till = now + life * 1000
    call('PEXPIRE', KEYS[1], life)
  end
  call('HSET', KEYS[1], 'quick', pack('>dddd', seq, now, last, till) .. written)
  if not calm then call('PEXPIRE', KEYS[1], life) end
  return reply .. debts .. delays
end
