package measure

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// Stolen returns for how long the host of a virtual machine has kept processors from work that was
// there for them. It is summed over all processors, to the hundredth of a second. The second result
// is false if the system does not tell; Linux tells. Only differences have a meaning.
func Stolen() (time.Duration, bool) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	return stolen(string(stat))
}

// stolen reads it from the first line, which is the sum over the processors: the ninth word, in
// ticks.
func stolen(stat string) (time.Duration, bool) {
	line, _, _ := strings.Cut(stat, "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return 0, false
	}
	ticks, err := strconv.ParseUint(f[8], 10, 32)
	return time.Duration(ticks) * (time.Second / 100), err == nil
}
