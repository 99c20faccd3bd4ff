package gate

// outlook tells when the entries that wait for a member will be admitted, one after the other and as
// things stand.
type outlook interface {
	// turn returns the instant before which the next in line can't be admitted if it costs that.
	turn(cost int) int64
	// stays says that this one stays in line.
	stays(cost int)
}

// laneOutlook is the outlook of the members of a lane.
type laneOutlook []outlook

func (o laneOutlook) turn(cost int) int64 {
	at := int64(0)
	for _, m := range o {
		at = max(at, m.turn(cost))
	}
	return at
}

func (o laneOutlook) stays(cost int) {
	for _, m := range o {
		m.stays(cost)
	}
}

// sumOutlook is the outlook of members to which only the sum of the costs in front matters.
type sumOutlook struct {
	m     member
	now   int64
	ahead uint64
}

func (o *sumOutlook) turn(cost int) int64 {
	at, _ := o.m.plan(o.now, o.ahead, cost, cost)
	return at
}

func (o *sumOutlook) stays(cost int) { o.ahead = add(o.ahead, cost) }

// windowOutlook plays a Window forward: at each turn it forgets the runs, in the log and then in
// line, that have to be over for the entry to have room.
type windowOutlook struct {
	m *windowMember
	windowView
	next windowView // if the one whose turn was asked for stays
}

// windowView is a Window at the instant at which an entry is admitted.
type windowView struct {
	at      int64
	used    int
	first   uint64 // the first run in the log that counts then
	waiting int    // the first in line that counts then
}

func (o *windowOutlook) turn(cost int) int64 {
	v := o.windowView
	for v.used > o.m.most-cost {
		r := (*run)(nil)
		if v.first != o.m.log.next {
			r = o.m.log.run(v.first)
			v.first++
		} else {
			r = &o.m.line[v.waiting]
			v.waiting++
		}
		v.used -= r.tokens
		v.at = max(v.at, (*Window)(o.m).over(r.at))
	}
	o.next = v
	return v.at
}

func (o *windowOutlook) stays(cost int) {
	o.windowView = o.next
	o.used += cost
	o.m.line = append(o.m.line, run{at: o.at, tokens: cost})
}
