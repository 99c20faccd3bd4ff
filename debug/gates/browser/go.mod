module github.com/escapement-go/escapement/debug/gates/browser

go 1.26.0

require (
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.23.0
	github.com/escapement-go/escapement v0.0.0
)

require (
	github.com/benbjohnson/clock v1.3.5 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
)

replace github.com/escapement-go/escapement => ../../..
