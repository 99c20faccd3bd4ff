package timing

// Worthwhile is the shortest interval at which Auto asks for wake-ups.
const Worthwhile = worthwhile

// WokenBy returns a Clock on the real clock whose alarms call arm instead of arming a timer
// of the system.
func WokenBy(arm func(now, at int64)) *Clock {
	return &Clock{wake: &wakeups{arm: arm}, base: epoch, baseAt: origin}
}

// At returns the instant that the alarm is set to.
func (a *Alarm) At() int64 { return a.at }
