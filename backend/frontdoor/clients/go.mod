module github.com/tokenrouter/tokenrouter/backend/frontdoor/clients

go 1.26.0

require (
	github.com/openai/openai-go/v3 v3.98.0
	github.com/prometheus/common v0.66.1
	github.com/sashabaranov/go-openai v1.41.2
)

require (
	github.com/coder/websocket v1.8.15 // indirect
	github.com/kr/pretty v0.3.1 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.2 // indirect
	github.com/tidwall/gjson v1.20.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
	go.yaml.in/yaml/v2 v2.4.2 // indirect
	google.golang.org/protobuf v1.36.8 // indirect
)
