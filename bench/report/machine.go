package report

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// machine describes the machine and the date; on Linux also how busy it was with other things.
func machine(now time.Time) string {
	s := fmt.Sprintf("%s, %s %s/%s, GOMAXPROCS %d", now.Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	if model := processorModel(); model != "" {
		s += ", " + model
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		if f := strings.Fields(string(load)); len(f) > 0 {
			s += ", load average " + f[0] + " before"
		}
	}
	return s
}

// stolen says which share of the processors' time the host has taken away.
func stolen(d, of time.Duration) string {
	return fmt.Sprintf("%.2f %% of the processors' time taken by the host", 100*d.Seconds()/max(of.Seconds(), 1e-9))
}

// processorModel returns what Linux calls the processor, or nothing.
func processorModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
