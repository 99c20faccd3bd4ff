// Package pace answers the question "when?". It has exact rates ([Rate]), a token channel to select
// on ([Pacer]), and a channel stage that slows values down to a rate ([Throttle]). Where callers wait
// in order, or have costs or deadlines, use the gates of package gate instead.
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
// # Words
//
//   - A token is the permission for one event. The burst is how many tokens idle time may save up.
//   - A token is due at the instant at which the rate allows it. It is granted when it is handed out.
//   - Lateness is the time from due to granted for which the system is to blame. The slack is how
//     much lateness is made up for.
//   - A hold is a pause: until it ends, no token is granted.
//   - The far side is what the work talks to, such as the server of an API.
package pace
