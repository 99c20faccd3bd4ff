//go:build !unix && !windows

package measure

import "time"

func cpu() (time.Duration, bool) { return 0, false }
