-- A state is calm if a call with entries alone needs to look at nothing but the time, the buckets and the windows. Then
-- quick.lua decides such a call, if it has slots for all its entries. It does what this script would do, for a fraction
-- of the price. A calm state has two more fields:
--   calm    epoch:gen:version:plan:run, as they are in the state, plan by its SHA-1; quick.lua writes it if the state begins
--   quick   packed: seq seen last until, and for each limit its kind, and
--             0, a bucket   tat part, the number of lows, and these
--             1, a window   span, the sum of its cells, their number, and of each its end, count and latest instant
--           until is when the key expires, or earlier. Both scripts write it.
-- Any call of this script that writes decides anew whether the state is calm. Time makes no state less calm.
calm = {}

-- is reports whether the state is calm: there are no members of another version, no guard that is longer for a member,
-- no hold, no Resume of which a member may not have heard, no claim, no slot given back, no member that holds units, and
-- none in the crowd.
function calm.is()
  for _, l in ipairs(limits) do
    if l.kind ~= 'bucket' and l.kind ~= 'window' or l.widened > 0 or l.free or state.has('^h' .. l.number .. '$') then return false end
  end
  if state.get('overlap') > now then return false end
  if plan.hold > now or plan.ended > now or (state.text('claim') or '') ~= '' then return false end
  if messages.replanned or back.changed or #back.list > 0 then return false end
  if state.get('wanting') > now or shares.keep >= 0 or shares.served < shares.tail then return false end
  return state.get('members') == 0 and calm.cells()
end

-- cells reports whether all cells are of windows of this member, and kept for no longer than these count them.
function calm.cells()
  for name in pairs(state.stored) do
    local id, e = match(name, '^w(%d+):(%d+)$')
    if id and not state.gone[name] then
      local l = limits[tonumber(id)]
      local keeps = l and l.cells and l.keeps[tonumber(e)]
      if not keeps or keeps > window.over(l, tonumber(e)) then return false end
    end
  end
  return true
end

function calm.pack(l)
  if not l.cells then
    local text = struct.pack('>BddB', 0, l.tat, l.part, #l.lows)
    for _, x in ipairs(l.lows) do text = text .. struct.pack('>dd', x[1], x[2]) end
    return text
  end
  local sum, size, cells = 0, 0, {}
  for _, e in ipairs(l.cells) do
    if l.counts[e] > 0 then
      sum, size = sum + l.counts[e], size + 1
      cells[size] = struct.pack('>ddd', e, l.counts[e], l.lasts[e])
    end
  end
  return struct.pack('>BddH', 1, l.span, sum, size) .. table.concat(cells)
end

-- save is called when the state was written. ttl is what its key lives for, in milliseconds.
function calm.save(ttl)
  if calm.is() then
    local quick = struct.pack('>dddd', state.seq, now, plan.last, now + ttl * 1000)
    for _, l in ipairs(limits) do quick = quick .. calm.pack(l) end
    local names = { num(plan.epoch), num(plan.gen), num(state.get('version')), redis.sha1hex(state.text('plan') or ''), run }
    redis.call('HSET', stateKey, 'calm', table.concat(names, ':'), 'quick', quick)
    answer('calm', 1)
  elseif state.text('quick') then
    redis.call('HDEL', stateKey, 'calm', 'quick')
  end
end
