-- The names that the parts of the script share. Each part is a block: what else it declares is its own.
local max, min, floor, ceil = math.max, math.min, math.floor, math.ceil
local match, gmatch, format = string.match, string.gmatch, string.format

local req = cjson.decode(ARGV[1]) -- the request
local me = req.member
local stateKey, backKey, crowdKey, turnsKey, unitsKey, leasesKey, lifeKey = unpack(KEYS)

local messages, reply = {}, {} -- what to publish: for each name, what comes behind it; and what to answer

local num, divide, costs, negative, answer -- 1_wire.lua: functions
local state, now                           -- 2_state.lua; now is the instant of the call, by the server's clock
local plan, run, fresh, forgotten          -- 3_epochs.lua: epochs and generations; what the server calls its data;
                                           -- whether the state is new, and since when it may have forgotten something
local learn                                -- 3b_learn.lua: what an adaptive limit makes of outcomes
local limits, bucket, window, adaptive     -- 4_limits.lua: all limits, and the kinds of limits on time
local learner, paced                       -- … the adaptive limit, or nil; and whether there is a limit on time, and
                                           -- none is a window
local units                                -- 5_units.lua: the limit of units in use at once
local claim                                -- 6_claim.lua: the member that goes first
local back                                 -- 7_back.lua: slots that were given back
local shares                               -- 8_shares.lua: how slots are shared between members
local calm                                 -- 8b_calm.lua: whether quick.lua may answer the next call
