-- What a member and the script say to each other. PROTOCOL.md says why it holds.
--
-- In one call a member says all that it has to say: what it gives back, what it has learned, and what it
-- asks for. The reply is all that it is told. A member is one Gate of one process.
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
-- KEYS  1 state (hash)                        2 slots given back (sorted set)
--       3 crowd (sorted set), 4 turns (hash)   of members that want slots, see 8_shares.lua
--       5 units (hash), 6 leases (sorted set)  of members that hold or want units, see 5_units.lua
--
--       7 since when this server has lost no key (string), shared by all gates, see 3_epochs.lua
--
-- ARGV  1 the request, as JSON:
--   member    its name
--   call      number of the call; it grows from call to call of a member
--   horizon   no slot is ever further away
--   late      how late a slot may be used
--   ahead     how far away a slot may be, this time
--   brief     … while an adaptive limit is about to change
--   epoch     that the member knows, or 0
--   gen       generation that it knows
--   seq       how often the state had been written at its last answer
--   alive     the state of the member should be here
--   jumped    the member saw the server's clock jump
--   hold      { left, age } or { ended }, for a server that does not know: what is left of the hold, and how long
--             ago the member has heard so; or how long ago Resume was called, if there was no hold since
--   newest    how far away the newest slot is that it knows
--   behind    the answer comes too late for slots before this instant; 0: it does not
--   waited    how long its first waiter without a slot has waited
--   mute      it has such waiters, but does not ask
--   inhand    weight of the slots that it has in hand
--   plan      the text of its limits
--   version   of these
--   limits    a list, see 4_limits.lua; late of a limit is its guard
--   ops       a list, each with its name in op:
--     settle    slot cost gen   the cost of an entry has changed by a delta
--     unused    slot cost gen   the same for a slot that was not used
--     giveback  slot cost gen   a slot that is still to come is not needed
--     success   mark slow numbers            entries have succeeded, for an adaptive limit
--     throttle  mark slow numbers after age  … or one was throttled; mark -1: in an epoch that is over
--     hold      span age        no member may admit an entry for some time
--     resume    age             the hold is over; age is how long ago that was called
--     reset                     an adaptive limit starts afresh
--     try       cost            a slot now, or none
--     ask       cost count most so many slots; if most is not 0, none further away than that
--   A cost or a delta is a text. It is a number that goes for every limit, or weight:c1:c2:… with a number for
--   each limit. The weight is what shares are counted in. No delta is for more at one limit and for less at
--   another.
--
-- The reply is a list of names, each before its value. What is 0 is left out.
--   now epoch gen seq
--   hold      how long it goes on; -1-age: there is none, and Resume was called so long ago
--   newest    how far away the newest slot is
--   life      how long the server keeps the state
--   wait      how long not to ask for slots; -1: until there is a message
--   turn      where the member's turn in the row of tokens ends, or 0; see the message turns
--   silent    how long the member waits for the message row
--   due       how far away the next slot is
--   by        number of the limit that due is the delay of
--   keep      -1: all waiters got slots; else the member asks again when wait is over and its slots in hand have
--             no more weight than keep
--   cap       how many units the member may use while others want some
--   units     units that it got besides those that it kept
--   again     0: it has all units that it wants; else how long until the next lease of another member ends, or -1
--   wanted    1: other members want units
--   tight     1: units are scarcer than slots, so no member may ask for slots apart
--   gaveup    1: an adaptive limit has given up
--   mark      what an adaptive limit calls its present interval
--   slow      1: entries at that interval are its control group
--   granted   how many entries it had granted before those of this call. Each entry has the next number
--   wants     how soon it is to hear of a success: 0 never, 1 with another call, 2 soon, 3 now
--   debts     for each limit two numbers, which members carry for a server that loses its state
--   given     1: there are slots that were given back, so an entry may go earlier than debts say
--   slots     for each try, and then each ask that is decided, a delay; or -1-delay if that is too far away. -1 for
--             a try that gets none, and for an ask that an adaptive limit has given up
--   picks     slots that were given back, for entries behind the first ask that is not decided: for each of these entries
--             its place among all asks, from 1, and its delay
--   reasons   for each delay that is too far away the number of the limit that it is of, or 0
--   calm      1: the state is calm, and no slot is still to come: quick.lua may answer the next entry
--   overlap   how long members of two versions are about yet: the limits are the lower ones of both
--   differs   the text of other limits, of that version, which the gate has. The call has changed nothing
--   overtaken 1: a later call of the member came before this one, which has changed nothing
--
-- Messages on the channel, which has the name of the state's key:
--   replanned epoch gen   slots of earlier generations are void
--   free member           units have become free
--   wanted member         the member lacks units
--   short member          units are scarcer than slots
--   faster ratio          the interval of an adaptive limit is shorter: what members wait for comes sooner
--   versions version      members of two versions are about, of which that is the newer one
--   row silent            the row of turns goes on: members with a turn wait so long for the next such message
--   turns upto interval free   the last free tokens up to there fit into the horizon: their members call one after the
--                         other, in half of so many intervals of nanoseconds; others an interval later for each token

function num(x) return format('%.0f', x) end

-- divide returns floor(a/b) and the rest, exactly.
function divide(a, b)
  local q = floor(a / b)
  local r = a - q * b
  if r < 0 then return q - 1, r + b end
  if r >= b then return q + 1, r - b end
  return q, r
end

-- costs returns what a cost or a delta says: n is its weight, and [i] what it is at the i-th limit.
local parsed = {}
function costs(text)
  local c = parsed[text]
  if c then return c end
  c = { n = tonumber(text) }
  if c.n then
    for i = 1, #req.limits do c[i] = c.n end
  else
    local i = 0
    for x in gmatch(text, '-?%d+') do
      if i == 0 then c.n = tonumber(x) else c[i] = tonumber(x) end
      i = i + 1
    end
    for k = i, #req.limits do c[k] = 0 end -- of a member that has fewer limits
  end
  parsed[text] = c
  return c
end

-- negative returns a cost as a delta that gives it back.
function negative(cost)
  local delta = {}
  for i = 1, #req.limits do delta[i] = -cost[i] end
  return delta
end

function answer(name, value)
  if value ~= 0 then
    reply[#reply + 1] = name
    reply[#reply + 1] = value
  end
end
