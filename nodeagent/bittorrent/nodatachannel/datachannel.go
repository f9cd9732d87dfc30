// Package datachannel takes the place of github.com/pion/datachannel: there is no WebRTC (package webrtc beside it).
package datachannel

import "io"

// ReadWriteCloser is what nobody implements.
type ReadWriteCloser interface{ io.ReadWriteCloser }
