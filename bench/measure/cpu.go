package measure

import "time"

// CPU returns the processor time that the process has used so far, and whether the system tells. It
// includes the time of the kernel on behalf of the process. Only differences have a meaning.
func CPU() (time.Duration, bool) { return cpu() }
