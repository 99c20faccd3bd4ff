module github.com/escapement-go/escapement/bench

go 1.26.0

require (
	github.com/escapement-go/escapement v0.0.0
	golang.org/x/sync v0.24.0
	golang.org/x/time v0.16.0
)

require github.com/benbjohnson/clock v1.3.5 // indirect

replace github.com/escapement-go/escapement => ../
