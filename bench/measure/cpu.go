package measure

import "time"

// CPU returns the processor time that the process has used so far, that of the kernel on
// its behalf included, and whether the system tells. It is for differences.
func CPU() (time.Duration, bool) { return cpu() }
