module tandem.internal/nodeagent/key

go 1.26.0

require (
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3
	github.com/google/go-tpm v0.9.8
	go.uber.org/goleak v1.3.0
	go.uber.org/zap v1.28.0
	tandem.internal/nodeagent v0.0.0
	tandem.internal/shared v0.0.0
)

require (
	go.uber.org/multierr v1.11.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace tandem.internal/nodeagent => ../

replace tandem.internal/shared => ../../shared

replace github.com/gorilla/websocket => ../../shared/link/nowebsocket
