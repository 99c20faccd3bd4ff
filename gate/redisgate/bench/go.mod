module github.com/escapement-go/escapement/gate/redisgate/bench

go 1.26.0

require (
	github.com/escapement-go/escapement v0.0.0
	github.com/escapement-go/escapement/gate/redisgate v0.0.0
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/redis/go-redis/v9 v9.23.0
	github.com/throttled/throttled/v2 v2.15.0
)

require (
	github.com/benbjohnson/clock v1.3.5 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/escapement-go/escapement => ../../..

replace github.com/escapement-go/escapement/gate/redisgate => ..
