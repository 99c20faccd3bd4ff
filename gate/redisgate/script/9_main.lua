-- One call: what the member reports, then what it asks for, then what is written.
local demand = { units = 0, tried = 0, weight = 0, asks = false } -- of all entries; of tries; of those that can wait
local slots, reasons, picks = {}, {}, {}
local inhand, got, taken, attempts = req.inhand, 0, 0, 0 -- weight, of asks; units, and those of tries

local report = {}

function report.ask(o)
  local cost = costs(o.cost)
  demand.units = demand.units + units.of(cost) * o.count
  demand.weight = demand.weight + cost.n * o.count
  demand.head = demand.head or units.of(cost)
  demand.asks = true
end

function report.try(o)
  demand.tried = demand.tried + units.of(costs(o.cost))
  demand.asks = true
end

local function settle(o, used)
  local delta = costs(o.cost)
  if not plan.known() or o.slot == 0 then
    if delta.n > 0 then limits.settle(0, delta) end
  elseif delta.n > 0 or plan.stands(o.slot, o.gen) then
    limits.settle(o.slot, delta, used)
  end
end

function report.settle(o) settle(o, true) end
function report.unused(o) settle(o, false) end

function report.giveback(o)
  if not plan.known() then return end
  local cost = costs(o.cost)
  if o.slot <= now then
    if plan.stands(o.slot, o.gen) then limits.settle(o.slot, negative(cost)) end
  elseif o.gen == plan.gen then
    back.give(o.slot, cost)
  end
end

function report.success(o)
  if plan.known() then adaptive.success(o.mark, o.slow == true, o.numbers or { 0 }) end
end

function report.throttle(o)
  adaptive.throttle(plan.known() and o.mark or -1, o.slow == true, o.numbers and o.numbers[1] or 0, o.after, now - o.age)
end
function report.hold(o) plan.holdFor(o.span, now - o.age) end
function report.resume(o) plan.resume(now - o.age) end
report.reset = adaptive.reset

-- noUnit decides an entry for which there is no unit. Would there be a token before the deadline?
local function noUnit(cost, most, only)
  local l, need = limits.units, units.of(cost)
  local s = limits.first(cost)
  if most > 0 and s - now > most then
    slots[#slots + 1] = -1 - (s - now)
    reasons[#reasons + 1] = limits.latest(cost)
    return false
  end
  if units.idles and l.used + units.others > 0 then units.shorten() end
  local with = l.used + taken + need
  if not only and (need > units.level or with <= units.level) and s <= now + req.ahead then
    claim.stake('units', now + l.ttl, need, #slots == 0)
  end
  shares.wait = units.nextChance(1)
  -- It does not wait for a slot, so it gives up its turn: members that have units would leave slots for it.
  if not only then shares.use(2 ^ 50) end
  return true
end

-- nextSlot returns the next slot for an entry, or nil and whether the entries behind it must wait, too.
local function nextSlot(cost, most, only)
  local full = inhand + got > 0 and not only and shares.full(inhand + got + cost.n, got)
  local soonest = max(now, req.behind, plan.hold)
  local till = now + (only and 0 or most > 0 and min(most, req.ahead) or req.ahead)
  local b = back.next(cost, soonest, till)
  if b and not full then return back.take(b, cost) end
  if claim.goesFirst() then
    shares.wait = max(10000, claim.other.till - req.late - now)
    shares.due, shares.keep, shares.by = shares.wait, 2 ^ 50, limits.latest(cost)
    return nil, true
  end
  local s, block = limits.first(cost)
  if not only then s = max(s, req.behind) end -- an earlier one would come too late
  if only and s > now then
    if shares.wait < 0 then shares.due, shares.by = s - now, limits.latest(cost) end
    return nil, true
  end
  if most > 0 and s - now > most then
    slots[#slots + 1] = -1 - (s - now)
    reasons[#reasons + 1] = limits.latest(cost)
    return nil, false
  end
  if full or not shares.fits(s, got, demand.weight) then
    shares.putOff(s, cost, full, block, inhand + got, got, demand.weight, #slots == 0)
    return nil, true
  end
  limits.take(s, cost)
  return s
end

-- decide decides one entry. only marks a try. It returns true if the entries behind it must wait, too.
local function decide(cost, most, only)
  local l, need = limits.units, units.of(cost)
  if need > 0 and (only or not l.apart) and not units.within(need, taken) then return noUnit(cost, most, only) end
  local s, stop = nextSlot(cost, most, only)
  if not s then return stop end
  if l and l.apart and (only or s <= now + l.lead) then units.occupy(need) end
  taken = taken + need
  if only then
    attempts = attempts + need
  else
    got, demand.weight = got + cost.n, demand.weight - cost.n
  end
  slots[#slots + 1] = s - now
  adaptive.grant(s, cost)
  return false
end

local function decideTry(o)
  local cost = costs(o.cost)
  if adaptive.refuses(cost) or decide(cost, 0, true) then slots[#slots + 1] = -1 end
end

local asked = 0 -- entries of asks that were looked at

-- decideAsk returns true if the entries behind these must wait.
local function decideAsk(o)
  local cost = costs(o.cost)
  for _ = 1, o.count do
    asked = asked + 1
    if adaptive.refuses(cost) then
      slots[#slots + 1] = -1
    elseif decide(cost, o.most, false) then
      return true
    end
  end
  return false
end

-- pick gives slots that were given back to entries behind one that must wait. That one can't use them, and they would
-- pass unused. So a member may have two shares in hand.
local function pick(o, count)
  local cost, soonest = costs(o.cost), max(now, req.behind, plan.hold)
  local till = now + (o.most > 0 and min(o.most, req.ahead) or req.ahead)
  for k = 1, count do
    local b = inhand + got + cost.n <= 2 * shares.size and back.next(cost, soonest, till)
    if not b then break end
    picks[#picks + 1] = asked + k
    picks[#picks + 1] = back.take(b, cost) - now
    got, demand.weight = got + cost.n, demand.weight - cost.n
  end
  asked = asked + count
end

local function decideAll()
  local stop = false
  local behind = #back.list > 0 and not limits.units
  for _, o in ipairs(req.ops) do
    if o.op == 'try' then decideTry(o) end
    if o.op == 'ask' and not stop then
      local before = asked
      stop = decideAsk(o)
      if stop and behind then pick(o, o.count - (asked - before)) end
    elseif o.op == 'ask' and behind and not adaptive.refuses(costs(o.cost)) then
      pick(o, o.count)
    end
  end
  shares.stopped = stop
end

-- save writes all changes, and returns until when the state is needed.
local function save()
  back.number()
  local ends = plan.save()
  local till, wrote = limits.save()
  ends, wrote = max(ends, till), wrote or back.changed
  local leased, released = units.save()
  ends, wrote = max(ends, leased), wrote or released
  wrote = shares.plan(got, demand.asks, inhand) or wrote
  if state.save(ends, wrote) then
    back.save(state.ttl)
    units.saveLease(state.ttl)
    shares.save(state.ttl)
    calm.save(tonumber(state.ttl))
  end
  return ends
end

plan.begin()
if not plan.agree() then return { 'differs', state.text('plan'), 'version', state.get('version') } end
limits.load()
plan.rest()
units.rest()
plan.remember()
if not units.load() then return { 'overtaken', 1 } end
claim.load()
for _, o in ipairs(req.ops) do report[o.op](o) end
adaptive.tell()
if req.brief and adaptive.brief() then
  req.ahead = min(req.ahead, max(req.brief, floor(2 * learner.span / learner.n))) -- two intervals at least, so that turns go on
end
plan.chargeHold()
back.load()

local l = limits.units
demand.units = demand.units + demand.tried
if l then
  units.lacking = l.more
  units.share(l.apart and l.more + max(0, demand.units - l.idle) or demand.units, demand.head or 0)
  if l.starved then units.shorten() end
  units.idles = limits.first(costs('1')) <= now -- no limit on time keeps an entry waiting
end
if plan.known() and req.gen ~= plan.gen then inhand = 0 end
shares.load()
decideAll()
claim.release()

local gain, again = 0, 0
if l then gain, again = units.settleUp(taken, attempts, demand.units, demand.tried) end
local ends = save()
for what, rest in pairs(messages) do redis.call('PUBLISH', stateKey, what .. ' ' .. rest) end

answer('now', now)
answer('epoch', plan.epoch)
answer('gen', plan.gen)
answer('seq', state.seq or state.get('seq'))
answer('hold', plan.answerHold())
answer('newest', plan.last - now)
answer('life', ends - now)
answer('wait', shares.wait)
answer('turn', shares.turn)
answer('silent', shares.silent)
answer('due', shares.due)
answer('by', shares.by)
answer('keep', shares.keep)
answer('cap', units.cap)
answer('units', gain)
answer('again', again)
answer('wanted', units.wanted and 1 or 0)
answer('tight', state.get('short') > now and 1 or 0)
if learner then
  answer('gaveup', learner.state.gaveup and 1 or 0)
  answer('mark', learner.state.change)
  answer('slow', learn.slowly(learner.state) and 1 or 0)
  answer('granted', learner.granted)
  answer('wants', learn.wants(learner.state, learner))
end
answer('overlap', plan.answerOverlap())
answer('debts', limits.debts())
answer('given', back.remain() and 1 or 0)
answer('slots', slots)
answer('reasons', reasons)
answer('picks', picks)
return reply
