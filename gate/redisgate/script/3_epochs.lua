-- Lives of the state. An epoch is one life of the state: it ends when the state is lost. A generation is one
-- plan within an epoch: it ends when slots that are still to come are made void.
--
-- hold is the end of the hold. heldat and resumed are the latest instants at which Hold and Resume were called:
-- what reaches the server late counts by these. A member may know of a hold that was ended until that would
-- have been over, which is ended.
plan, forgotten = {}, 0
local lost -- the state was there, and is void
local grace = 0 -- of a fresh state: how long slots may be in use that are not in it

-- readClock reads the clock, and what the server calls its data: it gives that another name when it starts, and when
-- it becomes the master.
local function readClock()
  local clock = redis.call('TIME')
  now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
  run = match(redis.call('INFO', 'replication'), 'master_replid:(%w+)') or 'unknown'
end

-- readUptime returns for how long the server has been there, at least.
local function readUptime()
  -- The server counts whole seconds that have begun: a tenth of a second can be one.
  local seconds = match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)') or '3600'
  return max(0, tonumber(seconds) - 1) * 1000000
end

-- isLost reports whether the state is void: it is from another life of the server or another clock. So is a state that
-- is older than what a member knows, as it was superseded elsewhere: epochs only grow, and so do the writes of one.
local function isLost(epoch)
  if epoch == 0 then return false end
  local known = req.epoch == epoch
  return state.text('run') ~= run or req.epoch > epoch or now < state.get('seen') - 1000000
    or known and (req.jumped or req.seq > state.get('seq'))
end

-- readLife returns since when no key can have been lost here, for all that is known. A flush takes the key of this
-- instant with it, and a failover changes what the server calls itself. So a state that is not here is either one that
-- has run out, or is lost since then.
local function readLife()
  local of, since = match(redis.call('GET', lifeKey) or '', '^(%w+):(%d+)$')
  since = tonumber(since)
  if of ~= run or since > now then
    since = now
    redis.call('SET', lifeKey, run .. ':' .. num(now), 'PX', '86400000')
  else
    redis.call('PEXPIRE', lifeKey, '86400000')
  end
  return since
end

-- forgottenSince returns since when a fresh state may have forgotten something.
local function forgottenSince()
  if lost or req.alive then return now end
  -- No member knows better. The server may be new, too.
  return max(plan.life, now - readUptime())
end

function plan.begin()
  readClock()
  state.load()
  local epoch = state.get('epoch')
  lost = isLost(epoch)
  fresh = epoch == 0 or lost
  if not fresh then now = max(now, state.get('seen')) end
  if fresh then
    plan.life = readLife()
    forgotten = forgottenSince()
    grace = max(0, forgotten + req.horizon + req.late - now)
    state.forget()
    epoch = max(now, req.epoch + 1)
    state.set('epoch', epoch)
    state.set('run', run)
  end
  plan.epoch, plan.gen, plan.last, plan.hold = epoch, state.get('gen'), state.get('last'), state.get('hold')
  plan.heldat, plan.resumed, plan.ended = state.get('heldat'), state.get('resumed'), state.get('ended')
end

-- Members must have the same limits: the state has their text. A member with other ones is turned away, unless it has a
-- higher version, or is of the version before. For as long as members of both are about, all go by the lower of both.
--
-- That is until overlap. A member in which entries wait makes no call for as long as it was told, so a message says that
-- the overlap has begun. While it lasts, members with entries that wait or hold units call every four horizons. So a
-- member of the older version has called at most five horizons before its last entry has left.
local overlapFor, renewedAt, toldEvery = 16, 15, 4 -- horizons

-- numbers writes down what lower has to know of the member's limits.
local function numbers()
  local list = {}
  for i, l in ipairs(req.limits) do
    list[i] = table.concat({ l.kind, num(l.n or 0), num(l.span or 0), num(l.burst or 0), num(l.fastest or 0), num(l.ttl or 0), num(l.late or 0) }, ':')
  end
  return num(req.horizon) .. ' ' .. table.concat(list, ' ')
end

-- lower makes a limit the lower of itself and another one. It returns false if they can not be used side by side.
local function lower(l, kind, n, span, burst, fastest, ttl, late)
  if l.kind ~= kind or (l.ttl or 0) ~= ttl or (l.late or 0) ~= late then return false end
  if kind == 'window' and l.span ~= span then return false end
  if kind == 'bucket' and n * l.span < l.n * span then
    l.n, l.span = n, span
  elseif kind ~= 'bucket' and l.n then
    l.n = min(l.n, n)
  end
  if l.burst then l.burst = min(l.burst, burst) end
  if l.fastest then l.fastest = max(l.fastest, fastest) end
  return true
end

-- beside has the member go by the lower of its limits and those others. Limits that one of both has besides are its own.
local function beside(others)
  local horizon, rest = match(others, '^(%d+) (.*)$')
  if tonumber(horizon) ~= req.horizon then return false end
  local i = 0
  for kind, n, span, burst, fastest, ttl, late in gmatch(rest, '(%a+):(%d+):(%d+):(%d+):(%d+):(%d+):(%d+)') do
    i = i + 1
    local l = req.limits[i]
    if l and not lower(l, kind, tonumber(n), tonumber(span), tonumber(burst), tonumber(fastest), tonumber(ttl), tonumber(late)) then
      return false
    end
  end
  return true
end

-- overlap has all members go by the lower limits for a while from now on.
local function overlap()
  if state.get('overlap') < now + renewedAt * req.horizon then state.set('overlap', now + overlapFor * req.horizon) end
end

-- tellOverlap tells members that wait of the overlap, now and then: one may have begun to listen a moment too late.
local function tellOverlap()
  if state.get('overlap') <= now or now < state.get('told') + toldEvery * req.horizon then return end
  state.set('told', now)
  messages.versions = num(state.get('version'))
end

-- agreeAs is agree for a state that has limits.
local function agreeAs(text, version)
  local mine = numbers()
  if req.version == version then
    if req.plan ~= text then return false end
    return state.get('overlap') <= now or beside(state.text('before'))
  elseif req.version > version then
    local before = state.text('numbers')
    if not beside(before) then return false end
    state.set('older', text)
    state.set('before', before)
    state.set('plan', req.plan)
    state.set('version', req.version)
    state.set('numbers', mine)
    plan.newer = true
    state.set('told', 0)
    overlap()
    return true
  end
  -- A state that has run out meanwhile does not have the older limits.
  local older = state.text('older')
  if older and req.plan ~= older then return false end
  if not older then
    state.set('older', req.plan)
    state.set('before', mine)
    plan.newer = true -- than what the tokens of the state were counted by
  end
  overlap()
  return beside(state.text('numbers'))
end

-- agree compares the member's limits with those of the state. It returns false if they are other ones.
function plan.agree()
  local text, version = state.text('plan'), state.get('version')
  if not req.plan then return true end
  if not text then
    state.set('plan', req.plan)
    state.set('version', req.version)
    state.set('numbers', numbers())
    return true
  end
  if not agreeAs(text, version) then return false end
  tellOverlap()
  return true
end

-- answerOverlap is how long the overlap goes on.
function plan.answerOverlap() return max(0, state.get('overlap') - now) end

-- known reports whether the member speaks of this epoch.
function plan.known() return req.epoch == plan.epoch end

-- rest sees to it that no slot is handed out while slots that are forgotten here may be in use.
function plan.rest()
  if grace == 0 then return end
  plan.last = now + grace
  state.set('quiet', plan.last)
  limits.empty(plan.last, 0)
end

-- replan voids all slots that are still to come, and begins a generation. Slots of a lost state stay in
-- use until quiet. The last few changes are kept, each with the instant from which on it voided slots.
function plan.replan()
  local from = max(now, state.get('quiet'))
  local cuts, n = num(plan.gen) .. ':' .. num(from), 1
  for cut in gmatch(state.text('cuts') or '', '%d+:%d+') do
    if n == 16 then break end
    cuts, n = cuts .. ' ' .. cut, n + 1
  end
  state.set('cuts', cuts)
  limits.replan(from)
  plan.last = min(plan.last, from)
  plan.gen = plan.gen + 1
  messages.replanned = num(plan.epoch) .. ' ' .. num(plan.gen)
end

-- stands reports whether a slot of an earlier generation was not voided. The member that holds a void
-- slot may not have heard of that, and other entries may have its tokens by now.
function plan.stands(instant, of)
  local left = plan.gen - of
  for before, from in gmatch(state.text('cuts') or '', '(%d+):(%d+)') do
    if tonumber(before) < of then break end
    if instant > tonumber(from) then return false end
    left = left - 1
  end
  return left <= 0
end

-- holdFor makes the hold longer, if it was called after the last Resume.
function plan.holdFor(span, called)
  if called < plan.resumed then return end
  plan.heldat = max(plan.heldat, called)
  if now + span > plan.hold then
    plan.hold = now + span
    plan.replan()
  end
end

-- resume ends the hold, unless one was called later. It gives back what the hold has charged.
function plan.resume(called)
  plan.resumed = max(plan.resumed, called)
  if plan.hold <= now or plan.heldat > called then return end
  plan.hold, plan.ended = now, max(plan.ended, plan.hold)
  plan.replan()
  limits.empty(now, 1)
end

-- remember takes in what the member knows of an epoch that is over.
function plan.remember()
  if req.epoch == 0 or plan.known() then return end
  local h = req.hold
  if h and h.ended then
    plan.resume(now - h.ended)
  elseif h and h.left > 0 and now - h.age >= plan.resumed then
    plan.hold, plan.heldat = max(plan.hold, now + h.left), max(plan.heldat, now - h.age)
  end
  limits.remember()
end

-- chargeHold charges each bucket so much during a hold that one token is there at its end, whatever happens
-- meanwhile.
function plan.chargeHold()
  if plan.hold <= now then return end
  limits.keepFree()
  limits.empty(plan.hold, 1)
end

function plan.save()
  state.set('gen', plan.gen)
  state.set('hold', plan.hold)
  for _, name in ipairs({ 'heldat', 'resumed', 'ended' }) do
    if plan[name] > 0 then state.set(name, plan[name]) end
  end
  state.set('last', plan.last)
  return max(max(plan.hold, plan.last, plan.ended) + req.late, state.get('overlap'))
end

-- answerHold is how long the hold goes on, or how long ago it was ended.
function plan.answerHold()
  local rest = max(0, plan.hold - now)
  if rest == 0 and plan.resumed > 0 then rest = -1 - max(0, now - plan.resumed) end
  return rest
end
