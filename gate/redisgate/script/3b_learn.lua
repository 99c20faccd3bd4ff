-- What an adaptive limit knows, and what it makes of successes and throttles. This is internal/adapt in Lua, name by
-- name: its package comment has the rules and why, and learn_test.go compares the two by random walks. No other limit
-- depends on this file. It differs in two ways: instants are in microseconds, and the numbers of changes and entries do
-- not wrap around. Spans and intervals are in nanoseconds.
--
-- c are the settings: fastest slowest backoff recover giveup. s is the state. A mark is what an entry was granted with:
-- change and number, and whether it is in the control group.
learn = {}
local rules -- makes the functions that take note of an outcome; most calls have none

do
local climbing, falling, holding, probing, judging = 0, 1, 2, 3, 4
local firstRoom, slower, spans, never = 2, 1.4, 2, -1

local function forgetNoise(s)
  s.tooFast, s.fast, s.slow, s.sum, s.acquitted, s.hold, s.clean = 0, { 0, 0 }, { 0, 0 }, 0, false, 0, 0
end

local function slowly(s, interval) return s.tooFast > 0 and interval >= slower * s.tooFast end

-- adapt.go, first part

-- fields are those of a state, in the order in which they are stored behind the layout. The first ones are flags.
-- Whatever changes here, or in what they mean, takes another layout: see adaptive.load.
local layout, flags = 2, 6
local function fields()
  return { 'atMost', 'gaveup', 'roomy', 'idle', 'returning', 'acquitted',
    'interval', 'change', 'generation', 'grants', 'phase', 'steps', 'known', 'proof', 'before', 'slips', 'wrong', 'fails',
    'target', 'fell', 'well', 'ill', 'left', 'streak', 'yield', 'stride', 'room', 'trial', 'probe', 'first',
    'passed', 'excused', 'span', 'resumed', 'began', 'provesFrom', 'failed', 'failedInterval', 'counted', 'lasted',
    'former', 'rest', 'tooFast', 'fast', 'slow', 'sum', 'hold', 'clean' }
end

-- pack returns a state as it is stored.
function learn.pack(s)
  local list = { layout }
  for i, name in ipairs(fields()) do list[i + 1] = s[name] end
  return cmsgpack.pack(list)
end

-- unpack returns a state that was stored, or nil if there is none, or it has another layout.
function learn.unpack(text)
  if not text then return nil end
  local read, list = pcall(cmsgpack.unpack, text)
  if not read or type(list) ~= 'table' or list[1] ~= layout then return nil end
  local s = {}
  for i, name in ipairs(fields()) do s[name] = list[i + 1] end
  return s
end

-- new returns a state of that interval in which nothing is known. Entries from before that change say nothing.
function learn.new(interval, change, grants)
  local s = { interval = interval, change = change, generation = change, grants = grants }
  for i, name in ipairs(fields()) do
    if s[name] == nil then s[name] = i > flags and 0 end
  end
  s.stride, s.room, s.probe, s.yield, s.began = 1, firstRoom, -1, { 0, 0 }, never
  forgetNoise(s)
  return s
end

-- fresh reports whether a state is as good as new.
function learn.fresh(s, c)
  return s.interval == c.fastest and s.known <= c.fastest and not s.gaveup and s.streak == 0 and s.tooFast == 0
end

-- wants returns how soon a success is to be known: 0 never, 1 with another call, 2 soon, 3 now.
function learn.wants(s, c)
  if learn.fresh(s, c) then return s.known == 0 and 1 or 0 end
  return (s.phase == holding or s.phase == climbing and s.interval == c.fastest) and 2 or 3
end

-- gain is how many tokens an entry of the probe spends, and length how many entries the probe has.
local function gain(s) return s.known / s.trial - 1 end
local function length(s) return ceil(s.room / gain(s)) + 2 end

-- grant counts an entry that is granted at the instant. It returns whether the entry is in the control group.
function learn.grant(s, instant)
  s.grants = s.grants + 1
  if s.began == never then s.began = instant end
  local older = s.provesFrom == 0 and (instant - s.began) * 1000 >= spans * s.span
  if older then s.provesFrom = s.grants end
  local n = s.grants - s.first + 1
  if s.phase == probing and (s.span > 0 and older or s.span == 0 and n == length(s)) then
    s.idle = (instant - s.began) * 1000 > s.known + 2 * n * s.trial
  end
  return slowly(s, s.interval)
end

-- slowly reports what grant would return.
function learn.slowly(s) return slowly(s, s.interval) end

function rules()
  local rest, sound, asked, trusted, margin, watched = 24, 32, 96, 8, 1.04, 6
  local seasoned, mostRoom, shrink, fewest, strides = 16, 6, 0.8, 32, { [0] = 1 / 3, 1, 3 }
  local noNoise, mostNoise, leastWell, caution, helped = 0.001, 0.3, 4, 400, 1.2
  local more, certainty, prior, spotless = 0.08, 5, 8, 600
  local outlier, many, rests, near, eagerness = 64, 4, 16, 0.08, 0.5
  local telling, leap = 1.05, 1.5
  local moved, firstRest, growth = 1.25, 5, 1.25
  local little, most = 1 / 8, 2 ^ 31 - 1

  local pow, log = math.pow, math.log

  -- A tally is { all, refused }, of 32 bits each as in Go.
  local function float(x) return (struct.unpack('<f', struct.pack('<f', x))) end

  local function add(t, refused)
    t[1] = float(t[1] + 1)
    if refused then t[2] = float(t[2] + 1) end
    if t[1] >= 512 then t[1], t[2] = t[1] / 2, t[2] / 2 end
  end

  local function share(t) return t[2] / max(t[1], 1) end
  local function shrunk(t, limit)
    if t[1] <= limit then return { t[1], t[2] } end
    return { limit, float(float(t[2] * limit) / t[1]) }
  end

  local function current(s, change) return change >= s.generation end
  local function tells(s, change) return current(s, change) or s.phase == judging and change == s.probe end
  local function samples(s, change, number)
    return s.phase == falling and change ~= s.probe and change >= s.fell and (s.span == 0 or number >= s.failed)
  end

  local function proves(s, number) return s.provesFrom > 0 and number >= s.provesFrom end
  local function base(s) return s.phase == probing and s.known or s.interval end

  local function clamp(c, x)
    if not (x < c.slowest) then return c.slowest end
    return max(floor(x + 0.5), c.fastest)
  end

  local function set(s, x)
    local was = s.interval
    s.interval, s.change, s.began, s.provesFrom = x, s.change + 1, never, 0
    if x > was then s.generation = s.change end
    return x ~= was
  end

  -- giveup.go

  local function inARow(s, c)
    if c.giveup == 0 then return end
    s.yield = shrunk(s.yield, c.giveup)
    add(s.yield, true)
    s.streak = s.streak + 1
    if s.streak >= c.giveup then s.gaveup = true end
  end

  local function broughtBack(s)
    if s.streak == 0 then return end
    add(s.yield, false)
    if s.yield[1] - s.yield[2] >= little * s.yield[1] then s.streak, s.yield = 0, { 0, 0 } end
  end

  -- noise.go

  local function noise(s)
    local least = s.hold == 0 and leastWell or leastWell + caution / s.hold
    if s.slow[1] - s.slow[2] < least or share(s.slow) >= mostNoise then return noNoise end
    local p = s.slow[2] / (s.slow[1] + prior)
    if s.hold > 0 then p = p + math.sqrt(p * (1 - p) / s.slow[1]) end
    if 1 - p > helped * (1 - share(s.fast)) then return noNoise end
    return max(noNoise, p)
  end

  local function succeeded(s, fresh, slow)
    if s.tooFast == 0 then return end
    add(fresh and slow and s.slow or s.fast, false)
    s.clean = s.clean + 1
    if s.clean >= spotless then
      forgetNoise(s)
    elseif fresh and s.sum > 0 then
      local p = noise(s)
      s.sum = max(0, s.sum + log((1 - p - more) / (1 - p)))
    end
  end

  local function refused(s, fresh, slow)
    s.clean = 0
    if s.tooFast == 0 then return true end
    add(fresh and slow and s.slow or s.fast, true)
    local p = noise(s)
    if not fresh or p <= noNoise then return p <= noNoise end
    s.sum = s.sum + log((p + more) / p)
    if s.sum >= certainty then return true end
    s.acquitted = s.acquitted or slow
    return false
  end

  local function fail(s, interval, slow)
    s.sum, s.acquitted = 0, false
    if s.tooFast == 0 then
      s.tooFast, s.fast = interval, { prior, 1 }
    elseif slow and noise(s) <= noNoise then
      s.tooFast, s.fast, s.slow = interval, shrunk(s.slow, prior), { 0, 0 }
    else
      s.tooFast, s.fast = min(interval, s.tooFast), shrunk(s.fast, prior)
    end
  end

  local function works(s, interval)
    if s.tooFast > 0 then s.tooFast = max(s.tooFast, interval) end
  end

  local function takeAcquitted(s)
    if not s.acquitted then return 0 end
    s.acquitted = false
    return s.tooFast
  end

  -- known.go, first part

  local function longer(s, c) return s.known * pow(c.recover, -strides[0]) end

  local function fall(s, target) s.phase, s.target, s.atMost = falling, target, s.span > 0 end

  -- costly.go, first part

  local function noteHint(s, after)
    s.span = max(after, min(floor(s.span / 8) * 7, after * outlier))
    if floor(s.span / many) < s.interval then s.span = 0 end
  end

  local function heldFor(s, after)
    if after > 0 then s.resumed, s.began, s.provesFrom = s.grants + 1, never, 0 end
  end

  local function gap(s)
    if s.failedInterval == 0 then return 0 end
    return s.known / s.failedInterval - 1
  end

  local function patience(s)
    local cost, g = s.span / s.known, gap(s)
    if g >= near then
      cost = cost * (eagerness / g)
    else
      cost = cost * (rests * 2 ^ min(s.fails, 2))
    end
    return floor(min(cost, most))
  end

  -- This one is in moving.go.
  local function planReturn(s)
    local wait = max(1, s.rest * s.span / s.known)
    if s.former > 0 and s.former * (1 + near) < s.known and wait < s.left then s.left, s.returning = floor(wait), true end
  end

  local function settle(s)
    s.phase, s.returning = holding, false
    s.left = rest * 2 ^ min(s.fails + s.wrong, 2)
    if s.span > 0 then
      s.left = max(s.left, patience(s))
      planReturn(s)
    end
  end

  -- probe.go

  local function startProbe(s, c)
    local x = min(pow(c.recover, strides[s.stride]), 1 / (1 + s.room / fewest))
    if s.span > 0 then
      local g = gap(s)
      x = g >= near and math.sqrt(1 / (1 + g)) or pow(c.recover, strides[s.stride])
    end
    local retry = takeAcquitted(s)
    if retry > 0 then x = min(x, retry / s.known) end
    s.trial = clamp(c, s.known * max(x, 0.5))
    if s.returning then s.trial = max(s.former, clamp(c, s.known / c.backoff)) end
    if s.trial >= s.known then return false end
    s.phase = probing
    s.first, s.passed, s.excused, s.idle = s.grants + 1, 0, 0, false
    set(s, s.trial)
    s.probe = s.change
    return true
  end

  local function adopt(s, c)
    s.before, s.known = s.known, s.trial
    s.proof, s.fails = 0, 0
    s.stride = min(s.stride + 1, #strides)
    if startProbe(s, c) then return true end
    settle(s)
    return s.interval ~= s.known and set(s, s.known)
  end

  local function endProbe(s, c, complete)
    if s.grants - s.first + 1 < length(s) then return false end
    if complete and not s.idle then return adopt(s, c) end
    s.phase = judging
    return set(s, s.known)
  end

  local function judge(s, c)
    local n, p = s.passed + s.excused, noise(s)
    if not s.idle and s.passed >= floor((length(s) + 1) / 2) then
      if s.excused <= n * p + math.sqrt(n * p * (1 - p)) then return adopt(s, c) end
      s.fails = s.fails + 1
    end
    settle(s)
    return false
  end

  local function probeFailed(s, number)
    local spent = (number - s.first) * gain(s)
    if s.proof < seasoned then
      s.room = max(s.room, min(spent, mostRoom))
    elseif not s.roomy then
      s.roomy, s.room = true, min(2 * spent, mostRoom)
    else
      s.room = min(max(2 * spent, s.room * shrink), mostRoom)
    end
    s.fails = s.fails + 1
    s.stride = s.stride - 1
    if s.stride < 0 then s.stride = #strides end
  end

  -- moving.go

  local function noteLasting(s)
    if s.phase ~= climbing and s.proof * s.known >= s.span then s.lasted = s.known end
  end

  local function move(s, x)
    local back = s.former > s.lasted and s.ill >= s.well
    if s.lasted == 0 or x == s.known or not back and x < moved * s.lasted then return x end
    if back then x = max(x, min(s.former, s.interval)) end
    local ratio = s.former / x
    if ratio > 1 / moved and ratio < moved then
      x = min(s.former, s.interval)
      s.failedInterval = x
    end
    s.former, s.lasted, s.rest = s.lasted, 0, max(s.rest, firstRest)
    return x
  end

  local function returned(s)
    s.returning, s.rest = false, max(firstRest, s.rest / growth)
    s.known, s.former = s.former, s.known
    s.before, s.proof, s.fails, s.stride = 0, 0, 0, 0
    s.failedInterval = s.known
    settle(s)
    return s.interval ~= s.known and set(s, s.known)
  end

  -- costly.go, second part

  local function miss(s, c, number, after)
    noteLasting(s)
    s.stride, s.fails, s.slips = 0, 0, s.slips + 1
    if s.phase == climbing or s.phase == falling then s.known = s.interval end
    s.before, s.failedInterval, s.counted = 0, s.known, 0
    local since = number - s.resumed
    if since < 0 then since = since + 2 ^ 32 end -- as it wraps around in Go
    local each = after / max(since, 1)
    if each >= telling * s.known then
      s.counted = clamp(c, each)
      fall(s, clamp(c, each * margin))
    elseif s.slips > 1 then
      fall(s, clamp(c, max(longer(s, c), min(s.known + each, s.known * leap))))
    else
      fall(s, clamp(c, longer(s, c)))
    end
  end

  local function believe(s, c, x)
    if s.counted > 0 and s.slips <= 2 and x * telling > s.counted * margin then
      s.failedInterval, s.fails = min(s.counted, clamp(c, x / margin)), 1
    end
  end

  local function missProbe(s)
    if s.returning then
      s.returning, s.rest = false, min(s.rest * growth, rests)
      return fall(s, s.known)
    end
    s.failedInterval, s.counted, s.stride = s.trial, 0, 0
    s.fails = s.fails + 1
    fall(s, s.known)
  end

  local function proven(s, c)
    if s.idle then
      settle(s)
      return set(s, s.known)
    end
    if s.returning then return returned(s) end
    s.known, s.before = s.trial, 0
    s.proof, s.fails = 0, 0
    local g = gap(s)
    if g <= 0 then
      s.failedInterval = 0
    elseif g < near then
      s.stride = 0
      settle(s)
      return false
    end
    s.stride = min(s.stride + 1, #strides)
    if startProbe(s, c) then return true end
    settle(s)
    return false
  end

  -- known.go, second part

  local function climb(s, c)
    local was, changed = s.interval, false
    if was > c.fastest then
      s.steps = s.steps + 1
      changed = set(s, clamp(c, was * c.recover))
    end
    if s.interval > c.fastest then return changed end
    if s.slow[2] == 0 then forgetNoise(s) end
    if was > c.fastest then return changed end
    s.proof = s.proof + 1
    if s.proof >= asked then
      s.known = c.fastest
      settle(s)
    end
    return false
  end

  local function arrive(s, c, ago)
    s.known = clamp(c, s.interval * pow(c.recover, -ago - 1))
    s.proof, s.fails, s.wrong, s.stride = 0, 0, 0, 0
    fall(s, s.known)
  end

  local function slip(s, c)
    s.stride, s.fails = 1, 0
    if s.before ~= 0 then
      s.room = min(max(2 * s.room, 1), mostRoom)
      s.wrong = s.wrong + 1
      fall(s, s.before)
      s.before, s.atMost = 0, true
      return
    end
    s.wrong = 0
    fall(s, clamp(c, longer(s, c)))
  end

  local function land(s, c)
    local x, n = s.target, s.well + s.ill
    if x ~= s.known and n >= trusted then
      local part = (n - 1) / max(s.well, 1)
      if part > telling then part = part * margin end
      x = clamp(c, max(s.known * part, longer(s, c)))
      if s.atMost then x = min(x, s.target) end
    end
    x = min(x, s.interval)
    if s.span > 0 then
      believe(s, c, x)
      x = move(s, x)
    end
    if x ~= s.known then s.known, s.proof = x, 0 end
    settle(s)
    return set(s, x)
  end

  local function hold(s, c)
    s.proof = s.proof + 1
    if s.proof >= sound and s.before ~= 0 then s.before, s.wrong = 0, 0 end
    s.left = s.left - 1
    if s.left > 0 and not s.acquitted then return false end
    s.returning = s.returning and not s.acquitted
    if not s.returning then
      s.slips = 0
      if not s.acquitted then works(s, s.known) end
    end
    if startProbe(s, c) then return true end
    settle(s)
    return false
  end

  local function contradicted(s) return s.well >= max(2, 2 * s.ill) and s.well + s.ill < trusted end

  -- adapt.go, second part

  -- success takes note that an entry has come back well, and reports whether that moved the interval.
  local function success(s, c, change, number, slow)
    succeeded(s, tells(s, change), slow)
    if change == s.probe then s.passed = s.passed + 1 end
    if not current(s, change) then
      if samples(s, change, number) then s.well = s.well + 1 end
      return false
    end
    broughtBack(s)
    local fresh = change == s.change
    if s.phase == probing and s.span > 0 then
      return fresh and proves(s, number) and proven(s, c)
    elseif s.phase == probing then
      return endProbe(s, c, fresh and number - s.first + 1 >= length(s))
    elseif not fresh then
      return false
    elseif s.phase == falling then
      s.steps = s.steps + 1
      if s.steps <= watched and s.span > 0 and contradicted(s) then return false end
      s.steps = 0
      return land(s, c)
    elseif s.phase == judging then
      return judge(s, c)
    elseif s.phase == climbing then
      return climb(s, c)
    elseif not s.acquitted and not proves(s, number) then
      return false
    end
    return hold(s, c)
  end

  -- throttle takes note that an entry was throttled. It returns whether that moved the interval, and whether it counts: if
  -- not, it is noise, and nothing is held. after is for how long the far side wants to be left alone, or 0.
  local function throttle(s, c, change, number, slow, after)
    if after > 0 then s.hold = after / c.fastest end
    if not refused(s, tells(s, change), slow) then
      if change == s.probe then s.excused = s.excused + 1 end
      return false, false
    end
    after = min(after, 2 ^ 57)
    if not current(s, change) then
      if s.phase == judging and change == s.probe then
        noteHint(s, after)
        probeFailed(s, number)
        s.sum = 0
        settle(s)
      elseif samples(s, change, number) then
        s.ill = s.ill + 1
      end
      heldFor(s, after)
      return false, true
    end
    fail(s, base(s), slow)
    inARow(s, c)
    s.fell, s.well, s.ill = s.generation, 0, 0
    noteHint(s, after)
    s.failed = number
    if s.span > 0 and s.phase == probing and change == s.probe then
      missProbe(s)
    elseif s.span > 0 and (s.known ~= 0 or s.grants - s.resumed >= trusted) then
      s.ill = 1
      miss(s, c, number, after)
    elseif s.phase == climbing and s.steps == 0 or s.phase == falling then
      s.phase, s.known, s.before, s.proof, s.slips = climbing, 0, 0, 0, 0
    elseif s.phase == climbing then
      arrive(s, c, s.change - change)
    elseif s.phase == probing and change == s.probe then
      probeFailed(s, number)
      fall(s, s.known)
    else
      s.ill = 1
      slip(s, c)
    end
    s.steps = 0
    local changed = set(s, clamp(c, s.interval * c.backoff))
    s.generation = s.change
    heldFor(s, after)
    return changed, true
  end

  return { success = success, throttle = throttle }
end

local made

function learn.success(...)
  made = made or rules()
  return made.success(...)
end

function learn.throttle(...)
  made = made or rules()
  return made.throttle(...)
end
end
