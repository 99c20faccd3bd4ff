//go:build race

package retryhttp_test

func init() { raceDetector = true }
