-- The limits on time: what each has granted, and when it has room for an entry. Their fields in a request:
--   kind bucket    n tokens in span; burst; strict; debt: how far ahead the schedule was at the last answer
--   kind adaptive  a bucket of one token in an interval: fastest, slowest and the last one known, in ns; burst and
--                  debt; backoff, recover and giveup. See 3b_learn.lua
--   kind window    n tokens in span; cell: the length of a cell; count: tokens in it at the last answer
--   kind units     see 5_units.lua
-- Of a bucket and a window besides: wide, widefor and heard; see limits.widen.
-- A bucket has tat and part: the instant at which it is full, and how many n-ths of a microsecond more. During a
-- hold it has free and freepart, too: the schedule without the hold.
limits, bucket, window, adaptive = {}, {}, {}, {}

-- move shifts the schedule of a bucket by so many tokens.
function bucket.move(l, tokens)
  local q, r = divide(l.part + tokens * l.span, l.n)
  l.tat, l.part = l.tat + q, r
end

-- correct is move for an entry that was admitted: it also goes for the schedule without the hold.
function bucket.correct(l, tokens)
  bucket.move(l, tokens)
  if l.free then
    local q, r = divide(l.freepart + tokens * l.span, l.n)
    l.free, l.freepart = l.free + q, r
  end
end

function bucket.atLeast(l, instant)
  if l.tat < instant then l.tat, l.part = instant, 0 end
end

-- freeAtLeast is atLeast for the schedule without the hold.
function bucket.freeAtLeast(l, instant)
  if l.free and l.free < instant then l.free, l.freepart = instant, 0 end
end

-- low notes that at the instant, a bucket lacked so many microseconds of tokens to be full. An entry from
-- before that is settled for less gets back no more than these: had it cost less from the start, the full
-- bucket would have turned the others away. Of such instants, those are kept after which the bucket always
-- lacked more. The oldest two of many become one, with less to get back.
function bucket.low(l, instant, debt)
  debt = max(0, debt)
  if debt >= l.burst * l.span / l.n then return end -- that is enough for any entry
  while #l.lows > 0 and l.lows[#l.lows][2] >= debt do table.remove(l.lows) end
  if #l.lows > 0 and l.lows[#l.lows][1] == instant then return end -- it lacked less just then
  l.lows[#l.lows + 1] = { instant, debt }
  if #l.lows > 16 then
    l.lows[2] = { l.lows[2][1], l.lows[1][2] }
    table.remove(l.lows, 1)
  end
end

-- bar notes that the slots so far give back no more than that.
function bucket.bar(l, debt) bucket.low(l, plan.last < now and now or plan.last + 1, debt) end

-- refund gives tokens of the slot at the instant back to a bucket, as far as low allows.
function bucket.refund(l, instant, tokens)
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
    bucket.correct(l, -tokens)
  end
  -- Had the entry cost that from the start, the bucket would have lacked less since.
  local since = l.lows
  l.lows = {}
  for k, x in ipairs(since) do bucket.low(l, x[1], first and k >= first and x[2] - span or x[2]) end
end

-- empty makes sure that the bucket lacks at least so many tokens of its burst at the instant.
function bucket.empty(l, instant, tokens)
  local q, r = divide(tokens * l.span, l.n)
  if l.tat > instant + q or l.tat == instant + q and l.part >= r then return end
  bucket.low(l, max(now, plan.last), 0)
  l.tat, l.part = instant + q, r
end

-- due returns the first instant at which a bucket has the tokens for that cost.
function bucket.due(l, cost)
  local q, r = divide(l.part + (cost - l.burst) * l.span, l.n)
  return l.tat + q + (r > 0 and 1 or 0)
end

function bucket.take(l, s, cost)
  bucket.low(l, s, l.tat - s)
  bucket.atLeast(l, s)
  bucket.move(l, cost)
end

-- replan gives back the tokens of all slots after the instant.
function bucket.replan(l, from)
  if l.free then
    -- All slots handed out during the hold are void.
    l.tat, l.part, l.free = l.free, l.freepart, nil
  elseif plan.last > from then
    local debt = max(0, l.tat - plan.last - floor(l.burst * l.span / l.n))
    bucket.low(l, max(now, plan.last), 0)
    l.tat, l.part = from + debt, 0
    bucket.move(l, l.burst)
  end
end

-- settle changes the cost of a slot. used says that an entry went by it. For a slot without one, the schedule is then what
-- it would be had the slot never been taken. The others are as far apart as any bucket demands by that schedule, too: it
-- is nowhere later than the one that they were chosen by. An entry that costs less than was thought has gone, and what
-- it gives back lets later ones be closer to it. So a strict bucket takes that back for the last slot alone.
function bucket.settle(l, instant, delta, used)
  if delta > 0 then
    bucket.low(l, max(now, plan.last), l.tat - now)
    bucket.atLeast(l, now)
    bucket.freeAtLeast(l, now)
    bucket.correct(l, min(delta, floor(2 ^ 51 / l.span)))
    l.tat = min(l.tat, now + 2 ^ 51)
    l.free = l.free and min(l.free, now + 2 ^ 51)
  elseif not used or instant == plan.last then
    bucket.refund(l, instant, -delta)
  elseif not l.strict then
    local least = min(l.tat, plan.last + floor(l.span / l.n) + 1)
    bucket.refund(l, instant, -delta)
    if plan.last > now then bucket.atLeast(l, least) end
  end
end

-- readFree takes in the schedule without the hold. A release without Resume keeps no account of it. Once that
-- has changed the schedule, this one goes by what it finds: a Resume then gives nothing back of what the hold
-- has charged.
function bucket.readFree(l)
  local free, part, tat, of = match(state.text('h' .. l.number) or '', '^(-?%d+):(%d+):(-?%d+):(%d+)$')
  if not free or tonumber(tat) ~= l.tat or tonumber(of) ~= l.part then return end
  l.free, l.freepart = tonumber(free), tonumber(part)
  if l.freepart >= l.n then l.free, l.freepart = l.free + 1, 0 end
end

function bucket.load(l)
  l.tat, l.part = state.get('t' .. l.number), state.get('f' .. l.number)
  if plan.hold > now then bucket.readFree(l) end
  -- Parts of another size come from a member that has other numbers for the limit.
  if l.part >= l.n then l.tat, l.part = l.tat + 1, 0 end
  l.lows = {}
  for instant, debt in gmatch(state.text('d' .. l.number) or '', '(%d+):(%d+)') do
    l.lows[#l.lows + 1] = { tonumber(instant), tonumber(debt) }
  end
end

function bucket.save(l)
  local i = l.number
  state.set('t' .. i, l.tat)
  state.set('f' .. i, l.part)
  if l.free then
    state.set('h' .. i, num(l.free) .. ':' .. num(l.freepart) .. ':' .. num(l.tat) .. ':' .. num(l.part))
  elseif state.text('h' .. i) then
    state.drop('h' .. i)
  end
  local lows = {}
  for k, x in ipairs(l.lows) do lows[k] = num(x[1]) .. ':' .. num(x[2]) end
  if #lows > 0 or state.text('d' .. i) then state.set('d' .. i, table.concat(lows, ' ')) end
  return l.tat
end

-- An adaptive limit is a bucket of one token in an interval. What it knows is in one field, packed by learn. The fields
-- of releases before that one are kept, too: interval, mark of the last change and of the generation, throttled
-- generations in a row, and whether it has given up. If a release of another layout has changed these, or has written
-- the field, all is forgotten but the interval.
function adaptive.load(l)
  local i = l.number
  local interval, change, gaveup = state.get('i' .. i), state.get('c' .. i), state.get('u' .. i)
  local s = learn.unpack(state.text('a' .. i))
  if interval == 0 then
    s = learn.new(l.fastest, 0, 0)
  elseif not s or s.interval ~= interval or s.change ~= change then
    s = learn.new(interval, max(change, s and s.change or 0) + 1, s and s.grants or 0)
    s.gaveup = gaveup == 1
  end
  s.interval = max(l.fastest, min(l.slowest, s.interval)) -- of a member with other limits
  l.state, l.span, l.n = s, s.interval, 1000
  l.was, l.granted = s.interval, s.grants
  bucket.load(l)
end

-- rescale changes how long a token takes. Tokens borrowed beyond the slots handed out were
-- counted in intervals, so they are scaled, too.
function bucket.rescale(l, span)
  local from = max(now, plan.last)
  if l.tat > from then l.tat, l.part = from + ceil((l.tat - from) * (span / l.span)), 0 end
  if l.free and l.free > now then l.free, l.freepart = now + ceil((l.free - now) * (span / l.span)), 0 end
  for _, x in ipairs(l.lows) do x[2] = floor(x[2] * (span / l.span)) end
  l.span = span
end

-- success takes note of entries that have come back well. They have the mark, and these numbers.
function adaptive.success(mark, slow, numbers)
  local l = learner
  if not l then return end
  for _, n in ipairs(numbers) do
    if learn.success(l.state, l, mark, n, slow) then bucket.rescale(l, l.state.interval) end
  end
end

-- throttle counts all throttles of an epoch that is over as one generation, the first of this one. One that does not
-- count is noise: nothing changes.
function adaptive.throttle(mark, slow, number, after, called)
  local l = learner
  if not l then return end
  local s = l.state
  if mark < 0 then mark, number = s.generation == 0 and s.change or -2, s.grants end
  local generation = s.generation
  local _, counts = learn.throttle(s, l, mark, number, slow, after * 1000)
  if s.generation ~= generation then
    l.span = s.interval
    plan.replan()
    bucket.empty(l, plan.last, l.burst)
  end
  if counts and after > 0 then plan.holdFor(after, called) end
end

function adaptive.reset()
  local l = learner
  if not l then return end
  l.state = learn.new(l.fastest, l.state.change + 1, l.state.grants)
  bucket.rescale(l, l.fastest)
  plan.replan()
end

-- grant counts an entry of that cost in the slot at the instant.
function adaptive.grant(instant, cost)
  if learner and cost[learner.number] > 0 then learn.grant(learner.state, instant) end
end

-- tell has members that wait for slots ask sooner, if the interval is shorter now. Slots of a replan are asked for anew
-- anyway.
function adaptive.tell()
  local l = learner
  if l and l.span < l.was and not messages.replanned then messages.faster = format('%.6f', l.span / l.was) end
end

-- brief reports whether the interval is about to change. Then no slot is handed out long before it is used.
function adaptive.brief() return learner and learn.wants(learner.state, learner) == 3 end

-- refuses reports whether an adaptive limit that has given up refuses an entry of that cost.
function adaptive.refuses(cost) return learner and learner.state.gaveup and cost[learner.number] > 0 end

function adaptive.save(l)
  local i, s = l.number, l.state
  state.set('i' .. i, s.interval)
  state.set('c' .. i, s.change)
  state.set('b' .. i, s.generation)
  state.set('k' .. i, s.streak)
  state.set('u' .. i, s.gaveup and 1 or 0)
  state.set('a' .. i, learn.pack(s))
  -- What was learned is kept for an hour, or for sixty times the longest interval.
  if not learn.fresh(s, l) then return now + max(3600000000, ceil(l.slowest * 60 / 1000)) end
  return 0
end

-- A window counts by cells: what was granted in a cell counts until the latest of it is a span ago.
-- Other members may have another span for the limit, or no such limit. So a cell is kept until no
-- member counts it.
function window.load(l) l.cells, l.counts, l.lasts, l.keeps, l.dirty, l.first, l.total = {}, {}, {}, {}, {}, 1, 0 end

-- over returns the instant from which on what was granted in the cell with that end counts no more.
function window.over(l, e) return l.lasts[e] + l.span end

-- loadCells reads the cells of all windows, and drops those that no member counts any more.
function window.loadCells()
  for name, value in pairs(state.stored) do
    local id, e = match(name, '^w(%d+):(%d+)$')
    if id then
      local l = limits[tonumber(id)]
      local count, last, keep = match(value, '(%d+):(%d+):(%d+)')
      e, count, last, keep = tonumber(e), tonumber(count), tonumber(last), tonumber(keep)
      if l and l.kind == 'window' and last + l.span > now then
        l.cells[#l.cells + 1] = e
        l.counts[e], l.lasts[e], l.keeps[e], l.total = count, last, keep, l.total + count
        if keep < last + l.span then l.dirty[e] = true end
      elseif keep <= now then
        state.drop(name)
      end
    end
  end
  for _, l in ipairs(limits) do
    if l.cells then table.sort(l.cells) end
  end
end

-- cellEnd returns the end of the cell of an instant.
function window.cellEnd(l, instant) return (floor(instant / l.cell) + 1) * l.cell end

-- add counts so many tokens more, or fewer, at the instant.
function window.add(l, instant, count)
  local e = window.cellEnd(l, instant)
  if not l.counts[e] then
    l.counts[e], l.lasts[e] = 0, instant
    l.cells[#l.cells + 1] = e
    if #l.cells > 1 and l.cells[#l.cells - 1] > e then table.sort(l.cells) end
  end
  count = max(count, -l.counts[e])
  if count > 0 then l.lasts[e] = max(l.lasts[e], instant) end
  l.counts[e] = l.counts[e] + count
  l.total = l.total + count
  l.dirty[e] = true
end

-- due returns the first instant, not before s, at which a window has room for that cost. It notes how much will
-- be over by then, for take.
function window.due(l, s, cost)
  l.head, l.left = l.first, l.total
  while l.left + cost > l.n and l.head <= #l.cells do
    local e = l.cells[l.head]
    s = max(s, window.over(l, e))
    l.left = l.left - l.counts[e]
    l.head = l.head + 1
  end
  return s
end

-- take counts an entry at the instant that due gave for it.
function window.take(l, s, cost)
  l.first, l.total = l.head, l.left
  window.add(l, s, cost)
end

-- opens returns when a window would have room, by all that it counts: slots that were handed out ahead may be what
-- the entry waits for.
function window.opens(l, cost)
  local left, due = cost, 0
  for _, e in ipairs(l.cells) do left = left + l.counts[e] end
  for _, e in ipairs(l.cells) do
    if left <= l.n then break end
    left, due = left - l.counts[e], window.over(l, e)
  end
  return due
end

function window.replan(l, from)
  for i = #l.cells, 1, -1 do
    if l.cells[i] - l.cell <= from then break end
    window.add(l, l.cells[i] - 1, -l.counts[l.cells[i]])
  end
end

function window.settle(l, instant, delta)
  if instant + l.span > now or delta < 0 and l.counts[window.cellEnd(l, instant)] then window.add(l, instant, delta) end
end

function window.save(l)
  local wrote = false
  for e in pairs(l.dirty) do
    local name = 'w' .. l.number .. ':' .. num(e)
    if l.counts[e] > 0 then
      state.written[name] = num(l.counts[e]) .. ':' .. num(l.lasts[e]) .. ':' .. num(max(l.keeps[e] or 0, window.over(l, e)))
    else
      state.drop(name)
    end
    wrote = true
  end
  return #l.cells > 0 and window.over(l, l.cells[#l.cells]) or 0, wrote
end

-- widen makes the span of a limit longer by what the member needs that is furthest away: its entries may be so much later
-- than the guard. All members go by that while slots of the far one count. A request says wide, what the member needs;
-- widefor, how long that counts; and heard, what it was told last, for a server that has lost its state. The second
-- longest need takes effect when the longest is over. All of them are in units of span.
function limits.widen(l)
  local name = 'x' .. l.number
  local wide, till, nextwide, lasts = match(state.text(name) or '', '^(%d+):(%d+):(%d+):(%d+)$')
  local was = tonumber(wide) or 0
  wide, till, nextwide, lasts = was, tonumber(till) or 0, tonumber(nextwide) or 0, tonumber(lasts) or 0
  if till <= now then wide, till, nextwide = nextwide, nextwide > 0 and now + lasts or 0, 0 end
  local needs = max(l.wide or 0, fresh and l.heard or 0)
  if needs > 0 then lasts = max(lasts, 2 * l.widefor) end
  if needs > wide then
    wide, till, nextwide = needs, now + lasts, max(nextwide, wide)
  elseif needs > 0 and needs == wide then
    if till < now + l.widefor then till = now + lasts end
  else
    nextwide = max(nextwide, needs)
  end
  if wide > 0 or was > 0 then state.set(name, num(wide) .. ':' .. num(till) .. ':' .. num(nextwide) .. ':' .. num(lasts)) end
  l.widened, l.widetill = wide, till
  if not l.tat then
    l.span = l.span + wide
  elseif wide == was then
    l.span = l.span + wide
  else
    local span = l.span
    l.span = span + was
    bucket.rescale(l, span + wide)
  end
end

local loads = { bucket = bucket.load, adaptive = adaptive.load, window = window.load }

function limits.load()
  local timed, windowed = false, false
  for i, l in ipairs(req.limits) do
    l.number = i
    limits[i] = l
    if loads[l.kind] then loads[l.kind](l) end
    if l.tat and plan.newer then bucket.bar(l, 0) end -- a token may have been less until now
    if l.kind == 'bucket' or l.kind == 'window' then limits.widen(l) end
    if l.kind == 'adaptive' then learner = l end
    if l.kind == 'units' then limits.units = l end
    timed, windowed = timed or l.tat, windowed or l.cells
  end
  paced = timed and not windowed
  window.loadCells()
end

-- empty leaves a bucket at most so many tokens at the instant.
function limits.empty(instant, tokens)
  for _, l in ipairs(limits) do
    if l.tat then bucket.empty(l, instant, l.burst - tokens) end
  end
end

-- keepFree begins to keep the schedules without the hold.
function limits.keepFree()
  for _, l in ipairs(limits) do
    if l.tat and not l.free then l.free, l.freepart = l.tat, l.part end
  end
end

-- replan makes all slots after the instant void.
function limits.replan(from)
  for _, l in ipairs(limits) do
    if l.tat then bucket.replan(l, from) end
    if l.cells then window.replan(l, from) end
  end
end

-- remember takes in what the member knows of the limits from an epoch that is over.
function limits.remember()
  for _, l in ipairs(limits) do
    if l.tat then
      if l.debt > 0 and not fresh then bucket.bar(l, l.tat - (now + l.debt)) end
      bucket.atLeast(l, now + l.debt)
      bucket.freeAtLeast(l, now + l.debt)
    end
    if l.kind == 'adaptive' and l.interval > l.span then
      l.span = min(l.interval, l.slowest)
      l.state.interval, l.was = l.span, l.span
    end
    -- None of what the member knows is newer than the newest slot.
    if l.cells and l.count > l.total and req.newest + l.span > 0 then
      window.add(l, now + req.newest, l.count - l.total)
    end
  end
end

-- earliest returns the first instant, not before s, at which an entry of that cost may go. It also returns
-- whether the entry waits for a window, which opens for many entries at once. A limit at which the entry costs
-- nothing has no say.
function limits.earliest(s, cost)
  local block = false
  for i, l in ipairs(limits) do
    local c = cost[i]
    local at = s
    if c > 0 and l.tat then at = bucket.due(l, c) end
    if c > 0 and l.cells then at = window.due(l, s, c) end
    if at > s then s, block = at, l.cells ~= nil end
  end
  return s, block
end

-- first returns what earliest does for an entry that comes now.
function limits.first(cost) return limits.earliest(max(now, plan.last, plan.hold), cost) end

-- latest returns the number of the limit that keeps back an entry of that cost for longest, or 0.
function limits.latest(cost)
  local at, by = max(now, plan.hold), 0
  for i, l in ipairs(limits) do
    local due, c = 0, cost[i]
    if c > 0 and l.tat then due = bucket.due(l, c) end
    if c > 0 and l.cells then due = window.opens(l, c) end
    if due > at then at, by = due, i end
  end
  return by
end

-- take hands out the slot that earliest gave for that cost.
function limits.take(s, cost)
  for i, l in ipairs(limits) do
    local c = cost[i]
    if c > 0 and l.tat then bucket.take(l, s, c) end
    if c > 0 and l.cells then window.take(l, s, c) end
  end
  plan.last = s
end

-- settle changes the cost of a slot by a delta; instant 0 stands for a slot that is forgotten. used is false if
-- the slot was not used.
function limits.settle(instant, delta, used)
  for i, l in ipairs(limits) do
    local d = min(delta[i], 2 ^ 50)
    if d ~= 0 and l.tat then bucket.settle(l, instant, d, used) end
    if d ~= 0 and l.cells then window.settle(l, instant, d) end
  end
end

-- room returns how many tokens fit into so long a time, and how long one of them takes.
function limits.room(span)
  local room, interval = 2 ^ 50, 0
  for _, l in ipairs(limits) do
    if l.tat then
      room = min(room, floor(span * l.n / l.span))
      interval = max(interval, l.span / l.n)
    elseif l.cells then
      room = min(room, l.n * max(1, floor(span / l.span)))
    end
  end
  return room, interval
end

-- save returns until when the state is needed, and whether a field was written.
function limits.save()
  local ends, wrote = 0, false
  for _, l in ipairs(limits) do
    if l.tat then ends = max(ends, bucket.save(l)) end
    if l.widened and l.widened > 0 then ends = max(ends, l.widetill) end
    if l.kind == 'adaptive' then ends = max(ends, adaptive.save(l)) end
    if l.cells then
      local till, some = window.save(l)
      ends, wrote = max(ends, till), wrote or some
    end
  end
  return ends, wrote
end

-- debts are what members carry for a server that loses its state. A hold is carried by itself.
function limits.debts()
  local list = {}
  for _, l in ipairs(limits) do
    list[#list + 1] = l.tat and max(0, (l.free or l.tat) - now) or l.cells and l.total or 0
    list[#list + 1] = l.kind == 'adaptive' and l.span or l.widened or 0
  end
  return list
end
