package report

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// machine says on what was measured, and when.
func machine(now time.Time) string {
	s := fmt.Sprintf("%s, %s %s/%s, GOMAXPROCS %d", now.Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	if model := processorModel(); model != "" {
		s += ", " + model
	}
	return s
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
