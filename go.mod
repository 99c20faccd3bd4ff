module github.com/escapement-go/escapement

go 1.26.0

require (
	github.com/benbjohnson/clock v1.3.5
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.24.0
	pgregory.net/rapid v1.3.0
)

require github.com/anishathalye/porcupine v1.3.1
