// Package webrtc takes the place of github.com/pion/webrtc/v4 and some fifteen modules behind it: the full agent has
// WebTorrent switched off. It has the names that the library for BitTorrent uses, and nothing works: a connection can
// never be made, so what has one as its receiver or argument is never called.
package webrtc

import (
	"errors"

	"github.com/pion/datachannel"
)

// ErrAbsent says that WebRTC was asked for.
var ErrAbsent = errors.New("this program has no WebRTC")

// What is never made, or has no meaning.
type (
	API                 struct{}
	PeerConnection      struct{}
	DataChannel         struct{}
	DataChannelInit     struct{}
	OfferOptions        struct{}
	AnswerOptions       struct{}
	SCTPTransport       struct{}
	DTLSTransport       struct{}
	ICETransport        struct{}
	PeerConnectionState int
	StatsReport         map[string]any
)

// ICEServer is a server that nobody asks.
type ICEServer struct {
	URLs           []string
	Username       string
	Credential     any
	CredentialType int
}

// ICECandidate is an address that nobody has.
type ICECandidate struct {
	Address string
	Port    uint16
}

// ICECandidatePair is two of them.
type ICECandidatePair struct{ Local, Remote *ICECandidate }

// SessionDescription is a part of trackers' messages.
type SessionDescription struct {
	Type string `json:"type"`
	SDP  string `json:"sdp"`
}

// Configuration has no effect.
type Configuration struct{ ICEServers []ICEServer }

// SettingEngine has no effect.
type SettingEngine struct{ LoggerFactory any }

// DetachDataChannels has no effect.
func (*SettingEngine) DetachDataChannels() {}

// WithSettingEngine has no effect.
func WithSettingEngine(SettingEngine) func(*API) { return func(*API) {} }

// NewAPI makes what makes nothing.
func NewAPI(...func(*API)) *API { return &API{} }

// NewPeerConnection fails with ErrAbsent.
func (*API) NewPeerConnection(Configuration) (*PeerConnection, error) { return nil, ErrAbsent }

// GatheringCompletePromise is over at once.
func GatheringCompletePromise(*PeerConnection) <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// Close and the methods after it fail with ErrAbsent, or do nothing.
func (*PeerConnection) Close() error { return ErrAbsent }

func (*PeerConnection) OnConnectionStateChange(func(PeerConnectionState)) {}
func (*PeerConnection) OnDataChannel(func(*DataChannel))                  {}
func (*PeerConnection) SetLocalDescription(SessionDescription) error      { return ErrAbsent }
func (*PeerConnection) SetRemoteDescription(SessionDescription) error     { return ErrAbsent }
func (*PeerConnection) LocalDescription() *SessionDescription             { return &SessionDescription{} }
func (*PeerConnection) GetStats() StatsReport                             { return nil }
func (*PeerConnection) SCTP() *SCTPTransport                              { return &SCTPTransport{} }

func (*PeerConnection) CreateDataChannel(string, *DataChannelInit) (*DataChannel, error) {
	return nil, ErrAbsent
}

func (*PeerConnection) CreateOffer(*OfferOptions) (SessionDescription, error) {
	return SessionDescription{}, ErrAbsent
}

func (*PeerConnection) CreateAnswer(*AnswerOptions) (SessionDescription, error) {
	return SessionDescription{}, ErrAbsent
}

func (PeerConnectionState) String() string { return "absent" }

func (*SCTPTransport) Transport() *DTLSTransport   { return &DTLSTransport{} }
func (*DTLSTransport) ICETransport() *ICETransport { return &ICETransport{} }

// GetSelectedCandidatePair fails with ErrAbsent.
func (*ICETransport) GetSelectedCandidatePair() (*ICECandidatePair, error) { return nil, ErrAbsent }

// Close and the methods after it fail with ErrAbsent, or do nothing.
func (*DataChannel) Close() error   { return ErrAbsent }
func (*DataChannel) OnClose(func()) {}
func (*DataChannel) OnOpen(func())  {}

// Detach fails with ErrAbsent.
func (*DataChannel) Detach() (datachannel.ReadWriteCloser, error) { return nil, ErrAbsent }
