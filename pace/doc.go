// Package pace answers the question "when?". It has exact rates ([Rate]), a token channel to select
// on ([Pacer]), and a channel stage that slows values down to a rate ([Throttle]).
//
//	p := pace.New(pace.PerSecond(100), nil)
//	defer p.Stop()
//	for _, url := range urls {
//		select {
//		case <-p.C: // a token: at most 100 a second
//			fetch(ctx, url)
//		case <-ctx.Done():
//			return ctx.Err()
//		}
//	}
//
// Callers that wait in order, or have costs or deadlines, use the gates of package gate instead.
//
// # Words
//
// A token is leave for one event. The burst is how many tokens idle time may save up. A token is
// due at the instant at which the schedule allows it. Lateness is the time from then until it is
// granted. The slack is how much lateness is made up for.
package pace
