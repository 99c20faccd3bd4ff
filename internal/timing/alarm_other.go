//go:build !linux

package timing

// system is nil: there are plain timers only. Those of Darwin, FreeBSD and Windows are
// exact enough as they are.
var system *wakeups
