-- In one call of this script a member says all that it has to say: what it gives back, what it has
-- learned, and what it asks for. The reply is all that it is told. A member is one Gate of one process.
--
-- A call is atomic. Whatever it writes, it writes at the end, and first what needs memory: a server
-- without memory has written nothing. A call that changes nothing writes nothing.
--
-- Instants are whole microseconds of the server's clock. A member never compares them with its own
-- clock. It is told delays from now, and hands an instant back only as the name of a slot. All
-- numbers stay below 2^53 and are stored by '%.0f'.
--
-- A slot is an instant at which an entry of some cost may go, by every limit. Slots are handed out in
-- order of time: none is earlier than the one before, unless it was given back.
--
-- KEYS  1 state (hash)   2 slots given back (sorted set)
--
-- All that a limit depends on is in one key, so that no part of it can be evicted alone. These fields
-- of the state exist more than once:
--   w1:end    what a window (the first limit) has granted in the cell with that end, and until when
--             any member counts it
--   m:name    what a member holds and wants of a limit of units, until when, and by which of its calls
--   d1        how full the bucket of the first limit was, and when, for entries that are settled for less
--   h1        during a hold: the schedule of the first limit as it would be without the hold and without the
--             slots handed out since, and the schedule that this goes with
--   s:name    that a member wanted more slots than it got: until when, since when it waits for its
--             turn, and for how much weight
--
-- ARGV  1 name of the member       2 horizon: no slot is ever further away
--       3 how late a slot may be used                      4 how far away one may be, this time
--       5 epoch that the member knows, or 0                6 generation that it knows
--       7 1: the state of the member should be here; 2: and it saw the server's clock jump
--       8 the hold that it knows, for a server that does not: left:age, what is left of it, and how long ago
--         it has heard so; or -1-age, if it knows that Resume was called so long ago, and of no hold since
--       9 how far away the newest slot is that it knows, or 0
--      10 instant of its last slot in hand, or 0
--      11 how long its first waiter without a slot has waited; -1: it has waiters, but does not ask
--      12 weight of the slots that it has in hand
--      13 number of the call; it grows from call to call of a member
--      14 number of limits, then for each its kind and 9 numbers:
--         g span n burst debt strict     n tokens in span; debt: how far ahead the schedule was
--         w span n cell count            count: tokens in the window
--         a fastest slowest burst debt interval backoff recover giveup     intervals in ns
--         c n ttl used apart more idle lead likes starved
--             used     units that the member keeps
--             apart    0: each slot comes with its units; 1: only slots within lead need theirs
--             more     units that it needs besides, for slots in hand
--             idle     kept units that no slot needs yet
--             likes    units that it would take besides, if no other member needs them
--             starved  1: a slot was due and had no unit
--      then operations, each with 3 values; gen is the generation of the slot. A cost or a delta is a
--      number that goes for every limit, or weight:c1:c2:… with a number for each limit. The weight is what
--      shares are counted in. No delta is for more at one limit and for less at another:
--         s slot delta gen  settle       v slot delta gen  the same for a slot that was not used
--         o mark 0 0        success      t mark after age  throttle; mark -1: of an epoch that is over
--         h span 0 age      hold         x 0 0 0           reset
--         e 0 0 age         resume       age is how long ago it was called
--         r slot cost gen   give back    y cost 0 0        a slot now, or none
--         d cost count most as many slots; if most is not 0, none further away than that
--
-- Reply now epoch generation hold newest life wait due cap units gaveup mark keep again wanted tight by
--         decided
--         hold    how long it goes on; -1-age: there is none, and Resume was called so long ago
--         keep    -1: all waiters got slots; else the member asks again when wait is over and its slots
--                 in hand have no more weight than keep
--         units   units that it got besides those that it kept
--         again   0: it has all units that it wants; else how long until the next lease of another
--                 member ends, or -1
--         wanted  1: other members want units
--         tight   1: units are scarcer than slots, so no member may ask for slots apart
--         by      number of the limit that due is the delay of, or 0
--         decided number of y and d that are answered
--       then for each limit 2 numbers, which members carry for a server that loses its state,
--       then for each y and d that is answered a delay, or -1-delay if that is too far away; -1 for a y
--       that gets none, and for a d that an adaptive limit has given up,
--       then for each delay that is too far away the number of the limit that it is of, or 0.
--
-- A member of the slots given back is instant:cost:serial, or instant:0:serial:c1:c2:… with a number for
-- each limit. A release without such costs has no use for the second, and lets its tokens lapse.

local max, min, floor, ceil = math.max, math.min, math.floor, math.ceil

-- The operations, by the names that they have in protocol.go.
local opSettle, opUnused, opGiveBack, opSuccess, opThrottle = 's', 'v', 'r', 'o', 't'
local opHold, opResume, opReset, opTry, opAsk = 'h', 'e', 'x', 'y', 'd'

local function num(x) return string.format('%.0f', x) end

local clock = redis.call('TIME')
local info = redis.call('INFO', 'server')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local run = string.match(info, 'run_id:(%w+)') or 'unknown'
-- The server counts whole seconds that have begun: a tenth of a second can be one.
local uptime = max(0, tonumber(string.match(info, 'uptime_in_seconds:(%d+)') or '3600') - 1) * 1000000

-- divide returns floor(a/b) and the rest, exactly.
local function divide(a, b)
  local q = floor(a / b)
  local r = a - q * b
  if r < 0 then return q - 1, r + b end
  if r >= b then return q + 1, r - b end
  return q, r
end

local me, horizon, late, ahead = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local knows, knowsgen, alive, jumped = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] ~= '0', ARGV[7] == '2'
local newest, floorat, waited, inhand = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])

-- The stored state, the fields to write, and the fields to delete.
local state, written, gone = {}, {}, {}
local flat = redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do state[flat[i]] = flat[i + 1] end
local function get(name) return tonumber(state[name] or '0') end
local function set(name, value)
  value = type(value) == 'number' and num(value) or value
  if state[name] ~= value then
    state[name] = value
    written[name] = value
  end
end

-- The state is void if it is from another life of the server or another clock. So is a state that is
-- older than what a member knows: epochs only grow, so it was superseded elsewhere.
local epoch = get('epoch')
local lost = epoch ~= 0 and (state.run ~= run or knows > epoch or now < get('seen') - 1000000 or (jumped and knows == epoch))
local fresh = epoch == 0 or lost
if not fresh then now = max(now, get('seen')) end
local grace = 0
if fresh then
  if lost or alive then
    grace = horizon + late
  else
    -- The key is new, and no member knows better. The server may be new, too.
    grace = max(0, horizon + late - uptime)
  end
  for name in pairs(state) do gone[name] = true end
  state, flat = {}, {}
  epoch = max(now, knows + 1)
  set('epoch', epoch)
  set('run', run)
end
local gen, last, hold = get('gen'), get('last'), get('hold')
-- The latest instants at which Hold and Resume were called. What reaches the server late counts by these.
-- A member may know of a hold that was ended until that would have been over.
local heldat, resumed, ended = get('heldat'), get('resumed'), get('ended')
local publish = {} -- the messages to publish, by their letters in protocol.go

-- The limits.
local limits, units, adaptive, paced = {}, nil, nil, false
local at = 15
for i = 1, tonumber(ARGV[14]) do
  local l = { kind = ARGV[at], number = i }
  local function arg(k) return tonumber(ARGV[at + k]) end
  if l.kind == 'g' then
    l.span, l.n, l.burst, l.debt, l.strict = arg(1), arg(2), arg(3), arg(4), arg(5) == 1
  elseif l.kind == 'a' then
    l.fastest, l.slowest, l.burst, l.debt, l.known = arg(1), arg(2), arg(3), arg(4), arg(5)
    l.backoff, l.recover, l.giveup = arg(6), arg(7), arg(8)
    l.n = 1000
    l.span = get('i' .. i)
    if l.span == 0 then l.span = l.fastest end
    l.change, l.began, l.streak, l.gaveup = get('c' .. i), get('b' .. i), get('k' .. i), get('u' .. i)
    adaptive = l
  elseif l.kind == 'w' then
    l.span, l.n, l.cell, l.count = arg(1), arg(2), arg(3), arg(4)
    l.cells, l.counts, l.keeps, l.first, l.total = {}, {}, {}, 1, 0
  else
    l.n, l.ttl, l.used, l.apart = arg(1), arg(2), arg(3), arg(4) == 1
    l.more, l.idle, l.lead, l.likes, l.starved = arg(5), arg(6), arg(7), arg(8), arg(9) == 1
    units = l
  end
  if l.span and l.kind ~= 'w' then
    l.tat, l.part = get('t' .. i), get('f' .. i)
    if hold > now then
      local free, part, tat, of = string.match(state['h' .. i] or '', '^(-?%d+):(%d+):(-?%d+):(%d+)$')
      -- A release without Resume keeps no account of it. Once that has changed the schedule, this one goes by
      -- what it finds: a Resume then gives nothing back of what the hold has charged.
      if free and tonumber(tat) == l.tat and tonumber(of) == l.part then
        l.free, l.freepart = tonumber(free), tonumber(part)
        if l.freepart >= l.n then l.free, l.freepart = l.free + 1, 0 end
      end
    end
    -- Parts of another size come from a member that has other numbers for the limit.
    if l.part >= l.n then l.tat, l.part = l.tat + 1, 0 end
    l.lows = {}
    for instant, debt in string.gmatch(state['d' .. i] or '', '(%d+):(%d+)') do
      l.lows[#l.lows + 1] = { tonumber(instant), tonumber(debt) }
    end
  end
  limits[i] = l
  at = at + 10
end

-- costs returns what a cost or a delta says: n is its weight, and [i] what it is at the i-th limit.
local parsed = {}
local function costs(text)
  local c = parsed[text]
  if c then return c end
  c = { n = tonumber(text) }
  if c.n then
    for i = 1, #limits do c[i] = c.n end
  else
    local i = 0
    for x in string.gmatch(text, '-?%d+') do
      if i == 0 then c.n = tonumber(x) else c[i] = tonumber(x) end
      i = i + 1
    end
    for k = i, #limits do c[k] = 0 end -- of a member that has fewer limits
  end
  parsed[text] = c
  return c
end

-- A window counts by cells: what was granted in a cell counts until the end of the cell is a span ago.
-- Other members may have another span for the limit, or no such limit. So a cell is kept until no
-- member counts it.
local members, wants = {}, {}
for i = 1, #flat, 2 do
  local name = flat[i]
  local id, e = string.match(name, '^w(%d+):(%d+)$')
  if id then
    local l = limits[tonumber(id)]
    local count, keep = string.match(flat[i + 1], '(%d+):(%d+)')
    e, count, keep = tonumber(e), tonumber(count), tonumber(keep)
    if l and l.kind == 'w' and e + l.span > now then
      l.cells[#l.cells + 1] = e
      l.counts[e] = count
      l.keeps[e] = keep
      l.total = l.total + count
      if keep < e + l.span then
        l.dirty = l.dirty or {}
        l.dirty[e] = true
      end
    elseif keep <= now then
      gone[name] = true
    end
  elseif string.sub(name, 1, 2) == 'm:' then
    members[string.sub(name, 3)] = flat[i + 1]
  elseif string.sub(name, 1, 2) == 's:' then
    wants[string.sub(name, 3)] = flat[i + 1]
  end
end
for _, l in ipairs(limits) do
  if l.cells then table.sort(l.cells) end
  paced = paced or l.tat
end
for _, l in ipairs(limits) do paced = paced and not l.cells end

-- add counts so many tokens more, or fewer, in the cell with that end.
local function add(l, e, count)
  if not l.counts[e] then
    l.counts[e] = 0
    l.cells[#l.cells + 1] = e
    if #l.cells > 1 and l.cells[#l.cells - 1] > e then table.sort(l.cells) end
  end
  count = max(count, -l.counts[e])
  l.counts[e] = l.counts[e] + count
  l.total = l.total + count
  l.dirty = l.dirty or {}
  l.dirty[e] = true
end

-- cellend returns the end of the cell of an instant.
local function cellend(l, instant) return (floor(instant / l.cell) + 1) * l.cell end

-- move shifts the schedule of a rate by so many tokens.
local function move(l, tokens)
  local q, r = divide(l.part + tokens * l.span, l.n)
  l.tat, l.part = l.tat + q, r
end

-- correct is move for an entry that was admitted: it also goes for the schedule without the hold.
local function correct(l, tokens)
  move(l, tokens)
  if l.free then
    local q, r = divide(l.freepart + tokens * l.span, l.n)
    l.free, l.freepart = l.free + q, r
  end
end

-- low notes that at the instant, a bucket lacked so many microseconds of tokens to be full. An entry from
-- before that is settled for less gets back no more than these: had it cost less from the start, the full
-- bucket would have turned the others away. Of such instants, those are kept after which the bucket always
-- lacked more. The oldest two of many become one, with less to get back.
local function low(l, instant, debt)
  debt = max(0, debt)
  if debt >= l.burst * l.span / l.n then return end -- that is enough for any entry
  while #l.lows > 0 and l.lows[#l.lows][2] >= debt do table.remove(l.lows) end
  l.lows[#l.lows + 1] = { instant, debt }
  if #l.lows > 16 then
    l.lows[2] = { l.lows[2][1], l.lows[1][2] }
    table.remove(l.lows, 1)
  end
end

-- refund gives tokens of the slot at the instant back to a bucket, as far as low allows.
local function refund(l, instant, tokens)
  local span, first = ceil(tokens * l.span / l.n), nil
  for k, x in ipairs(l.lows) do
    if x[1] > instant then
      first = k
      break
    end
  end
  if first and l.lows[first][2] < span then
    span = l.lows[first][2]
    l.tat = l.tat - span
    if l.free then l.free = l.free - span end
  else
    correct(l, -tokens)
  end
  -- Had the entry cost that from the start, the bucket would have lacked less since.
  local since = l.lows
  l.lows = {}
  for k, x in ipairs(since) do low(l, x[1], first and k >= first and x[2] - span or x[2]) end
end

local function atleast(l, instant)
  if l.tat < instant then l.tat, l.part = instant, 0 end
end

-- freeatleast is atleast for the schedule without the hold.
local function freeatleast(l, instant)
  if l.free and l.free < instant then l.free, l.freepart = instant, 0 end
end

-- empty makes sure that the bucket lacks at least so many tokens of its burst at the instant.
local function empty(l, instant, tokens)
  local q, r = divide(tokens * l.span, l.n)
  if l.tat > instant + q or l.tat == instant + q and l.part >= r then return end
  low(l, max(now, last), 0)
  l.tat, l.part = instant + q, r
end

-- Until quiet, members may still use slots that are forgotten here.
if grace > 0 then
  last = now + grace
  set('quiet', last)
  for _, l in ipairs(limits) do
    if l.tat then empty(l, last, l.burst) end
  end
end
if fresh and units and (lost or alive or uptime < units.ttl) then set('grace', now + units.ttl) end
-- replan voids all slots that are still to come, and begins a generation. Slots of a lost state stay in
-- use until quiet. The last few changes are kept, each with the instant from which on it voided slots.
local function replan()
  local from = max(now, get('quiet'))
  local cuts, n = num(gen) .. ':' .. num(from), 1
  for cut in string.gmatch(state.cuts or '', '%d+:%d+') do
    if n == 16 then break end
    cuts, n = cuts .. ' ' .. cut, n + 1
  end
  set('cuts', cuts)
  for _, l in ipairs(limits) do
    if l.free then
      -- All slots handed out during the hold are void.
      l.tat, l.part, l.free = l.free, l.freepart, nil
    elseif l.tat and last > from then
      local debt = max(0, l.tat - last - floor(l.burst * l.span / l.n))
      low(l, max(now, last), 0)
      l.tat, l.part = from + debt, 0
      move(l, l.burst)
    elseif l.kind == 'w' then
      for i = #l.cells, 1, -1 do
        if l.cells[i] - l.cell <= from then break end
        add(l, l.cells[i], -l.counts[l.cells[i]])
      end
    end
  end
  last = min(last, from)
  gen = gen + 1
  publish.g = true
end

-- stands reports whether a slot of an earlier generation was not voided. The member that holds a void
-- slot may not have heard of that, and other entries may have its tokens by now.
local function stands(instant, of)
  local left = gen - of
  for before, from in string.gmatch(state.cuts or '', '(%d+):(%d+)') do
    if tonumber(before) < of then break end
    if instant > tonumber(from) then return false end
    left = left - 1
  end
  return left <= 0
end

-- rescale changes the interval of an adaptive limit. Tokens borrowed beyond the slots handed out were
-- counted in intervals, so they are scaled, too.
local function rescale(l, span)
  local from = max(now, last)
  if l.tat > from then l.tat, l.part = from + ceil((l.tat - from) * (span / l.span)), 0 end
  if l.free and l.free > now then l.free, l.freepart = now + ceil((l.free - now) * (span / l.span)), 0 end
  for _, x in ipairs(l.lows) do x[2] = floor(x[2] * (span / l.span)) end
  l.span = span
end

-- holdfor makes the hold longer, if it was called after the last Resume.
local function holdfor(span, called)
  if called < resumed then return end
  heldat = max(heldat, called)
  if now + span > hold then
    hold = now + span
    replan()
  end
end

-- leaveone sees to it that at the instant a bucket has one token at most.
local function leaveone(instant)
  for _, l in ipairs(limits) do
    if l.tat then empty(l, instant, l.burst - 1) end
  end
end

-- resume ends the hold, unless one was called later. It gives back what the hold has charged.
local function resume(called)
  resumed = max(resumed, called)
  if hold <= now or heldat > called then return end
  hold, ended = now, max(ended, hold)
  replan()
  leaveone(now)
end

if knows ~= 0 and knows ~= epoch then
  -- The member remembers what the server does not.
  local left, age = string.match(ARGV[8], '^(-?%d+):?(%d*)$')
  left, age = tonumber(left), tonumber(age) or 0
  if left < 0 then
    resume(now + left + 1)
  elseif left > 0 and now - age >= resumed then
    hold, heldat = max(hold, now + left), max(heldat, now - age)
  end
  for _, l in ipairs(limits) do
    if l.tat then
      atleast(l, now + l.debt)
      freeatleast(l, now + l.debt)
    end
    if l.kind == 'a' and l.known > l.span then l.span = min(l.known, l.slowest) end
    if l.kind == 'w' and l.count > l.total then
      add(l, cellend(l, max(now + newest, now - l.span)), l.count - l.total)
    end
  end
end

-- duebucket returns the first instant at which a bucket has the tokens for that cost.
local function duebucket(l, cost)
  local q, r = divide(l.part + (cost - l.burst) * l.span, l.n)
  return l.tat + q + (r > 0 and 1 or 0)
end

-- earliest returns the first instant, not before s, at which an entry of that cost may go. For each
-- window it notes how much will be over by then. It also returns whether the entry waits for a window,
-- which opens for many entries at once. A limit at which the entry costs nothing has no say.
local function earliest(s, cost)
  local block = false
  for i, l in ipairs(limits) do
    local c = cost[i]
    if c == 0 then
      -- passed by
    elseif l.tat then
      local at = duebucket(l, c)
      if at > s then s, block = at, false end
    elseif l.kind == 'w' then
      l.head, l.left = l.first, l.total
      while l.left + c > l.n and l.head <= #l.cells do
        local e = l.cells[l.head]
        if e + l.span > s then s, block = e + l.span, true end
        l.left = l.left - l.counts[e]
        l.head = l.head + 1
      end
    end
  end
  return s, block
end

-- latest returns the number of the limit that keeps back an entry of that cost for longest, or 0. It
-- goes by all that a window counts: slots that were handed out ahead may be what the entry waits for.
local function latest(cost)
  local at, by = max(now, hold), 0
  for i, l in ipairs(limits) do
    local due, c = 0, cost[i]
    if c == 0 then
      -- passed by
    elseif l.tat then
      due = duebucket(l, c)
    elseif l.kind == 'w' then
      local left = c
      for _, e in ipairs(l.cells) do left = left + l.counts[e] end
      for _, e in ipairs(l.cells) do
        if left <= l.n then break end
        left, due = left - l.counts[e], e + l.span
      end
    end
    if due > at then at, by = due, i end
  end
  return by
end

local function take(s, cost)
  for i, l in ipairs(limits) do
    local c = cost[i]
    if c == 0 then
      -- passed by
    elseif l.tat then
      low(l, s, l.tat - s)
      atleast(l, s)
      move(l, c)
    elseif l.kind == 'w' then
      l.first, l.total = l.head, l.left
      add(l, cellend(l, s), c)
    end
  end
  last = s
end

-- The members: which have units of a concurrency limit, and which want some.
local others, free, allowed, mine, call = 0, 0, 0, { 0, 0, 0 }, ARGV[13]
local wanted, expires = false, nil
if units then
  local levels = {}
  for name, value in pairs(members) do
    local expiry, held, want, latest = string.match(value, '(%d+):(%d+):(%d+):(%d+)')
    expiry, held, want = tonumber(expiry), tonumber(held), tonumber(want)
    if name == me then
      -- This call was under way for so long that its member gave it up and has called again. What it
      -- says of units is out of date.
      if tonumber(call) <= tonumber(latest) then return {} end
      mine = { expiry, held, want }
    elseif expiry <= now then
      gone['m:' .. name] = true
      if held > 0 then publish.c = true end
    else
      others = others + held
      levels[#levels + 1] = { held, held + want }
      wanted = wanted or want > 0
      if held > 0 and (not expires or expiry < expires) then expires = expiry end
    end
  end
  publish.c = publish.c and wanted or nil
  free = max(0, units.n - others - units.used)
  if get('grace') > now then free = 0 end
  units.levels = levels
end

-- A claim keeps later entries, of any member, from overtaking an entry for ever. There is one claim at
-- a time, the oldest. The first waiter of a member may make it while it waits for one of these:
--   units, if its member has less than its share, or if it needs more than a share
--   more than one token of a limit
--   a window that has less than one token for each member
local mark = '^(%w+):(%d+):(%d+):(%d+):(%a)$'
local claimant, since, expiry, heavy, what = string.match(state.claim or '', mark)
local claim, staked = nil, false
if claimant and tonumber(expiry) > now then
  claim = { since = tonumber(since), till = tonumber(expiry), cost = tonumber(heavy), kind = what }
end
local other = claim and claimant ~= me and claim
local came = now - max(0, waited)

local function stake(kind, till, cost, first)
  local from = first and came or now
  if other and other.since <= from then return end
  staked = true
  set('claim', me .. ':' .. num(from) .. ':' .. num(till) .. ':' .. num(cost) .. ':' .. kind)
end

-- share sets what the member may take if it wants so many units, of which the first waiter needs so
-- many. It returns how many the member may have at once. If members want more units than there are,
-- each gets the same share.
local function share(want, first)
  local demand, level = { units.used + want }, 0
  for _, o in ipairs(units.levels) do demand[#demand + 1] = o[2] end
  table.sort(demand)
  local left = units.n
  level = units.n
  for i, d in ipairs(demand) do
    local even = floor(left / (#demand - i + 1))
    if d > even then
      level = even
      break
    end
    left = left - d
  end
  local reserved = 0
  for _, o in ipairs(units.levels) do reserved = reserved + max(0, min(o[2], level) - o[1]) end
  -- A member with more than its share gets none, and keeps what it has.
  allowed = max(0, min(free, max(level - units.used, free - reserved)))
  units.level = level
  local cap = max(level, units.n - others - reserved)
  local claimed = other and other.kind == 'u'
  if claimed then cap = min(cap, max(0, units.n - others - other.cost)) end
  if claimed and (other.since < came or units.used > 0 and first <= level) then
    allowed = min(allowed, max(0, free - other.cost))
  elseif first > level and free >= first then
    allowed = max(allowed, first)
  end
  return cap
end

local op, ops = at, #ARGV
local function success(mark)
  local l = adaptive
  if not l or mark < l.began then return end
  l.streak = 0
  if mark == l.change and l.span > l.fastest then
    rescale(l, max(l.fastest, floor(l.span * l.recover)))
    l.change = l.change + 1
  end
end

-- throttle counts all throttles of an epoch that is over as one generation, the first of this one.
local function throttle(mark, after, called)
  local l = adaptive
  if not l then return end
  if mark >= l.began or mark < 0 and l.began == 0 then
    l.span = min(l.slowest, floor(l.span * l.backoff))
    l.change = l.change + 1
    l.began = l.change
    l.streak = l.streak + 1
    if l.giveup > 0 and l.streak >= l.giveup then l.gaveup = 1 end
    replan()
    empty(l, last, l.burst)
  end
  if after > 0 then holdfor(after, called) end
end

-- settle changes the cost of a slot by a delta; instant 0 stands for a slot that is forgotten.
-- asked is false if the slot was not used. A bucket that gets tokens back lets later entries be closer
-- to earlier ones than it would have. So a strict bucket takes back only the tokens of the last slot.
local function settle(instant, delta, asked)
  for i, l in ipairs(limits) do
    local delta = min(delta[i], 2 ^ 50)
    if delta == 0 then
      -- as it was
    elseif l.tat then
      local least = min(l.tat, last + floor(l.span / l.n) + 1)
      if delta > 0 then
        low(l, max(now, last), l.tat - now)
        atleast(l, now)
        freeatleast(l, now)
        correct(l, min(delta, floor(2 ^ 51 / l.span)))
        l.tat = min(l.tat, now + 2 ^ 51)
        l.free = l.free and min(l.free, now + 2 ^ 51)
      elseif instant == last then
        correct(l, delta)
      elseif asked and not l.strict then
        refund(l, instant, -delta)
        if last > now then atleast(l, least) end
      end
    elseif l.kind == 'w' then
      local e = cellend(l, instant)
      if e + l.span > now then add(l, e, delta) end
    end
  end
end

-- negative returns a cost as a delta that gives it back.
local function negative(cost)
  local delta = {}
  for i = 1, #limits do delta[i] = -cost[i] end
  return delta
end

-- unitsof returns how many units an entry of that cost takes.
local function unitsof(cost) return units and cost[units.number] or 0 end

local want, head, tried = 0, nil, 0 -- units: of all entries, of the first that can wait, of tries
local wish, asks = 0, 0             -- weight of the entries that can wait; how many operations ask
local backs = {}
while op <= ops do
  local what = ARGV[op]
  local a, b, c = tonumber(ARGV[op + 1]), tonumber(ARGV[op + 2]), tonumber(ARGV[op + 3])
  if what == opAsk then
    local cost = costs(ARGV[op + 1])
    want, wish = want + unitsof(cost) * b, wish + cost.n * b
    head = head or unitsof(cost)
    asks = asks + 1
  elseif what == opTry then
    tried = tried + unitsof(costs(ARGV[op + 1]))
    asks = asks + 1
  elseif what == opSettle or what == opUnused then
    local delta = costs(ARGV[op + 2])
    if knows ~= epoch or a == 0 then
      if delta.n > 0 then settle(0, delta) end
    elseif delta.n > 0 or stands(a, c) then
      settle(a, delta, what == opSettle)
    end
  elseif what == opSuccess then
    if knows == epoch then success(a) end
  elseif what == opThrottle then
    throttle(knows == epoch and a or -1, b, now - c)
  elseif what == opHold then
    holdfor(a, now - c)
  elseif what == opResume then
    resume(now - c)
  elseif what == opReset then
    local l = adaptive
    if l then
      rescale(l, l.fastest)
      l.streak, l.gaveup = 0, 0
      l.change = l.change + 1
      l.began = l.change
      replan()
    end
  elseif what == opGiveBack and knows == epoch then
    local cost = costs(ARGV[op + 2])
    if a <= now then
      if stands(a, c) then settle(a, negative(cost)) end
    elseif c == gen then
      backs[#backs + 1] = { a, { unpack(cost) } }
    end
  end
  op = op + 4
end

want = want + tried

-- During a hold each bucket is charged so much that one token is there at its end, whatever happens meanwhile.
if hold > now then
  for _, l in ipairs(limits) do
    if l.tat and not l.free then l.free, l.freepart = l.tat, l.part end
  end
  leaveone(hold)
end

-- fits reports whether what is left of a slot that was given back is enough for an entry. Units are counted
-- apart.
local function fits(left, cost)
  for i, l in ipairs(limits) do
    if l ~= units and cost[i] > left[i] then return false end
  end
  return true
end

-- some returns the most that is left of a slot at any limit. alike says that it is the same at all of them.
local function some(left)
  local most, least = 0, nil
  for i, l in ipairs(limits) do
    if l ~= units then
      most = max(most, left[i])
      least = min(least or left[i], left[i])
    end
  end
  return most, most == least
end

-- Slots that were given back are handed out first. If none took such a slot in time, its tokens count
-- as never taken.
local stale = publish.g or fresh
local back, backat, changed = {}, 1, #backs > 0
if not stale then
  local lapsed = {}
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '+inf')) do
    local instant, cost, several = string.match(member, '^(%d+):(%d+):%d+(:?.*)$')
    local b = { tonumber(instant), { unpack(costs(several == '' and cost or cost .. several)) }, member }
    local to = b[1] < now and lapsed or back
    to[#to + 1] = b
  end
  for i = #lapsed, 1, -1 do -- the last one first: see settle
    settle(lapsed[i][1], negative(lapsed[i][2]))
    changed = true
  end
  if #backs > 0 then
    for _, b in ipairs(backs) do back[#back + 1] = b end
    table.sort(back, function(x, y) return x[1] < y[1] end)
  end
end

local cap, apart, lacking = 0, false, 0
if units then
  apart, lacking = units.apart, units.more
  cap = share(apart and units.more + max(0, want - units.idle) or want, head or 0)
end

-- within reports whether there are units for one more entry: idle ones, or free ones.
local function within(need, taken)
  if apart then return need <= units.idle + max(0, allowed - lacking) end
  return need <= allowed - taken
end

-- shorten notes that for a horizon, units are scarcer than slots: slots handed out ahead would pass
-- unused.
local function shorten()
  if not paced then return end
  if get('short') <= now then publish.u = true end
  set('short', now + horizon)
end
if units and units.starved then shorten() end
local idle = units and earliest(max(now, last, hold), costs('1')) <= now -- no limit on time keeps an entry waiting

-- occupy notes that an entry needs its units now.
local function occupy(need)
  local has = min(need, units.idle)
  units.idle = units.idle - has
  lacking = lacking + need - has
end

-- While other members want slots, too, no member has more in hand than its even share of those that fit
-- into the horizon. So there is room for every member, unless it is new or there are more members than
-- slots. These take turns: a member leaves room for what those that have waited longer lack.
local crowd, elders, turn, lacked = 1, {}, now, 0
local function wanting(value)
  local expiry, since, lack = string.match(value, '(%d+):(%d+):(%d+)')
  return tonumber(expiry), tonumber(since), tonumber(lack)
end
if wants[me] then
  local _, since, lack = wanting(wants[me])
  if lack > 0 then turn, lacked = since, lack end
end
for name, value in pairs(wants) do
  local expiry, since, lack = wanting(value)
  if expiry <= now then
    gone['s:' .. name] = true
  elseif name ~= me then
    crowd = crowd + 1
    if since < turn then elders[#elders + 1] = lack end
  end
end
local room, interval = 2 ^ 50, 0
for _, l in ipairs(limits) do
  if l.tat then
    room = min(room, floor(ahead * l.n / l.span))
    interval = max(interval, l.span / l.n)
  elseif l.kind == 'w' then
    room = min(room, l.n * max(1, floor(ahead / l.span)))
  end
end
local fair, keep, lack, before = max(1, floor(room / crowd)), -1, 0, 0
if not claim or claimant ~= me then
  for _, tokens in ipairs(elders) do before = before + min(tokens, fair) end
end
local reach = max(0, ahead - ceil(before * interval))
if knows == epoch and knowsgen ~= gen then inhand = 0 end
local slots, wait, due, prev = {}, -1, 0, max(now, floorat, hold)
local got, taken, attempts = 0, 0, 0 -- weight, and units; of these, those of tries
local reasons, by = {}, 0
local stop = false

-- giveup reports whether an adaptive limit that has given up refuses an entry of that cost.
local function giveup(cost) return adaptive and adaptive.gaveup == 1 and cost[adaptive.number] > 0 end

-- slot decides one entry. only marks a try. It returns true if the entries behind it must wait, too.
local function slot(cost, most, only)
  local s, block
  while back[backat] and (back[backat][1] < prev or some(back[backat][2]) == 0) do backat = backat + 1 end
  local b, has, need = back[backat], inhand + got, unitsof(cost)
  if need > 0 and (only or not apart) and not within(need, taken) then
    -- There is no unit. Would there be a token before the deadline?
    s = earliest(max(now, last, hold), cost)
    if most > 0 and s - now > most then
      slots[#slots + 1] = -1 - (s - now)
      reasons[#reasons + 1] = latest(cost)
      return false
    end
    if idle and units.used + others > 0 then shorten() end
    local with = units.used + taken + need
    if not only and (need > units.level or with <= units.level) and s <= now + ahead then stake('u', now + units.ttl, need, #slots == 0) end
    wait = expires and max(1, expires - now) or -1
    if get('grace') > now then wait = max(1, get('grace') - now) end
    return true
  end
  local full = crowd > 1 and has > 0 and has + cost.n > fair and not only
  if b and not full and fits(b[2], cost) and b[1] <= now + ahead and (most == 0 or b[1] - now <= most) and (not only or b[1] <= now) then
    s = b[1]
    for i = 1, #limits do b[2][i] = b[2][i] - cost[i] end
    b.used, changed = true, true
  else
    if other and other.kind == 't' and other.since < came then
      wait = max(10000, other.till - late - now)
      due, keep, by = wait, 2 ^ 50, latest(cost)
      return true
    end
    s, block = earliest(max(now, last, hold), cost)
    if only and s > now then return true end
    if most > 0 and s - now > most then
      slots[#slots + 1] = -1 - (s - now)
      reasons[#reasons + 1] = latest(cost)
      return false
    end
    if full or s > now + reach then
      wait, due, keep, by = max(0, s - now - ahead), s - now, max(1, floor(fair / 8)), latest(cost)
      -- Lighter entries would take the tokens that it waits for.
      local heavy = cost[max(by, 1)] > 1
      if not full and s > now + ahead and (heavy or block and room < crowd) then
        -- The member calls once a horizon to keep its claim.
        stake('t', now + min(wait, horizon) + floor(horizon / 2), cost.n, #slots == 0)
        if staked then wait = min(wait, horizon) end
      end
      if full then
        wait, keep = 0, floor(fair / 8)
      elseif 4 * has < 3 * fair then
        -- The member calls again when there is all that it lacks. Members before it may go in the
        -- meantime, so it calls once a horizon at least.
        lack, keep = min(fair - has, wish), 2 ^ 50
        local after = floor((before + max(0, min(lack, floor(room / 2)) - cost.n)) * interval)
        if not staked then wait = max(0, s - now - ahead + min(after, horizon)) end
      end
      return true
    end
    take(s, cost)
  end
  if apart and (only or s <= now + units.lead) then occupy(need) end
  prev, got, taken = s, got + cost.n, taken + need
  if only then attempts = attempts + need else wish = wish - cost.n end
  slots[#slots + 1] = s - now
  return false
end

op = at
while op <= ops do
  local what = ARGV[op]
  local b, c = tonumber(ARGV[op + 2]), tonumber(ARGV[op + 3])
  if what == opTry then
    local cost = costs(ARGV[op + 1])
    if giveup(cost) or slot(cost, 0, true) then slots[#slots + 1] = -1 end
  elseif what == opAsk and not stop then
    local cost = costs(ARGV[op + 1])
    for _ = 1, b do
      if giveup(cost) then
        slots[#slots + 1] = -1
      else
        stop = slot(cost, c, false)
      end
      if stop then break end
    end
  end
  op = op + 4
end

if claimant == me and waited >= 0 and not staked then
  set('claim', '')
  publish.c = true
end

-- All changes are written here.
local serial = get('serial')
if changed and not stale then set('serial', serial + #back) end
set('gen', gen)
set('hold', hold)
if heldat > 0 then set('heldat', heldat) end
if resumed > 0 then set('resumed', resumed) end
if ended > 0 then set('ended', ended) end
set('last', last)
local ends, wrote = max(hold, last, ended) + late, changed
for i, l in ipairs(limits) do
  if l.tat then
    set('t' .. i, l.tat)
    set('f' .. i, l.part)
    if l.free then
      set('h' .. i, num(l.free) .. ':' .. num(l.freepart) .. ':' .. num(l.tat) .. ':' .. num(l.part))
    elseif state['h' .. i] then
      gone['h' .. i] = true
    end
    local lows = {}
    for k, x in ipairs(l.lows) do lows[k] = num(x[1]) .. ':' .. num(x[2]) end
    if #lows > 0 or state['d' .. i] then set('d' .. i, table.concat(lows, ' ')) end
    ends = max(ends, l.tat)
    if l.kind == 'a' then
      set('i' .. i, l.span)
      set('c' .. i, l.change)
      set('b' .. i, l.began)
      set('k' .. i, l.streak)
      set('u' .. i, l.gaveup)
      -- What was learned is kept for a minute.
      if l.span > l.fastest or l.gaveup == 1 then ends = max(ends, now + 60000000) end
    end
  elseif l.kind == 'w' then
    if #l.cells > 0 then ends = max(ends, l.cells[#l.cells] + l.span) end
    for e in pairs(l.dirty or {}) do
      local name = 'w' .. i .. ':' .. num(e)
      if l.counts[e] > 0 then
        written[name] = num(l.counts[e]) .. ':' .. num(max(l.keeps[e] or 0, e + l.span))
      else
        gone[name] = true
      end
      wrote = true
    end
  end
end
local again = 0
if units then
  taken = apart and min(allowed, lacking) or taken
  if apart and lacking > 0 and taken == lacking then
    taken = max(taken, min(allowed, taken + units.likes))
    lacking = taken
  end
  local held = units.used + taken
  local unmet = apart and lacking - taken or want - tried - (taken - attempts)
  if unmet > 0 then
    local at = get('grace') > now and get('grace') or expires
    again = at and max(1, at - now) or -1
  end
  if held < mine[2] and wanted then publish.c = true end
  if unmet > 0 and (apart or mine[3] == 0) and others > 0 then publish.w = true end
  if held + unmet > 0 then
    ends = max(ends, now + units.ttl)
    written['m:' .. me] = num(now + units.ttl) .. ':' .. num(held) .. ':' .. num(max(0, unmet)) .. ':' .. call
  elseif mine[1] > 0 then
    gone['m:' .. me] = true
    wrote = true
  end
  ends = max(ends, get('grace'))
  for _, value in pairs(members) do ends = max(ends, tonumber(string.match(value, '%d+'))) end
end
if keep >= 0 then
  local since = got > 0 and now or turn
  set('s:' .. me, num(now + max(0, wait) + 2 * horizon) .. ':' .. num(since) .. ':' .. num(lack))
elseif wants[me] and asks == 0 and inhand == 0 and waited >= 0 then
  gone['s:' .. me] = true
  wrote = true
elseif lacked > 0 and got > 0 then
  set('s:' .. me, num(now + 2 * horizon) .. ':0:0')
end
local fields = {}
for name, value in pairs(written) do
  gone[name] = nil
  fields[#fields + 1] = name
  fields[#fields + 1] = value
end
if #fields > 0 or wrote then
  redis.call('HSET', KEYS[1], 'seen', num(now), unpack(fields))
  gone.seen = nil
  for name in pairs(gone) do redis.call('HDEL', KEYS[1], name) end
  if stale then
    redis.call('DEL', KEYS[2])
  elseif changed then
    for i, b in ipairs(back) do
      local left, alike = some(b[2])
      if left > 0 and (b.used or not b[3]) then
        local name = num(b[1]) .. ':' .. num(alike and left or 0) .. ':' .. num(serial + i)
        if not alike then
          for k, l in ipairs(limits) do name = name .. ':' .. num(l == units and 0 or b[2][k]) end
        end
        redis.call('ZADD', KEYS[2], num(b[1]), name)
      end
      if b[3] and b.used then redis.call('ZREM', KEYS[2], b[3]) end
    end
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. num(now))
  end
  -- Other members may have limits that this one does not know of.
  local ttl = floor(max(0, ends - now) / 1000) + 1000 + floor(horizon / 1000)
  ttl = num(max(ttl, redis.call('PTTL', KEYS[1])))
  redis.call('PEXPIRE', KEYS[1], ttl)
  if changed then redis.call('PEXPIRE', KEYS[2], ttl) end
end
if publish.g then redis.call('PUBLISH', KEYS[1], 'g ' .. num(epoch) .. ' ' .. num(gen)) end
if publish.c then redis.call('PUBLISH', KEYS[1], 'c ' .. me) end
if publish.w then redis.call('PUBLISH', KEYS[1], 'w ' .. me) end
if publish.u then redis.call('PUBLISH', KEYS[1], 'u ' .. me) end

local rest = max(0, hold - now)
if rest == 0 and resumed > 0 then rest = -1 - max(0, now - resumed) end
local reply = { now, epoch, gen, rest, last - now, ends - now, wait, due, cap, taken,
  adaptive and adaptive.gaveup or 0, adaptive and adaptive.change or 0, keep, again, wanted and 1 or 0,
  get('short') > now and 1 or 0, by, #slots }
for _, l in ipairs(limits) do
  local x, y = 0, 0
  if l.tat then x = max(0, (l.free or l.tat) - now) end -- a hold is carried by itself
  if l.kind == 'a' then y = l.span end
  if l.kind == 'w' then x = l.total end
  reply[#reply + 1] = x
  reply[#reply + 1] = y
end
for _, s in ipairs(slots) do reply[#reply + 1] = s end
for _, l in ipairs(reasons) do reply[#reply + 1] = l end
return reply
