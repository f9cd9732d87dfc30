package join

import (
	"errors"
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"tandem.internal/shared/door"
	"tandem.internal/shared/jointoken"
	"tandem.internal/shared/wire"
)

// status is the HTTP status of a refusal. Two codes have a more exact status here than in package door.
func status(code wire.Code) int {
	switch code {
	case wire.CodeNotSupported: // a body of another type
		return http.StatusUnsupportedMediaType
	case wire.CodeExpired: // an expired token never becomes valid again
		return http.StatusGone
	}
	return door.Status(code)
}

func (d *Door) refuse(w http.ResponseWriter, r *http.Request, err error) {
	e, ok := errors.AsType[*wire.Error](err)
	if !ok {
		d.log.Error("join door", zap.String("path", r.URL.Path), zap.Error(err))
		e = wire.New(wire.CodeInternal, "", "the controller failed to answer; its log says why")
	}
	d.log.Debug("join door refuses", zap.String("path", r.URL.Path), zap.String("from", r.RemoteAddr),
		zap.String("code", string(e.Code)))
	d.write(w, status(e.Code), refusal(e))
}

func refusal(e *wire.Error) []byte {
	b, err := jointoken.Encode(&jointoken.Refusal{Error: e})
	if err != nil {
		return []byte(`{"error":{"code":"internal","message":"the refusal cannot be written"}}`)
	}
	return b
}

func (d *Door) write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		d.log.Debug("join door: the caller left before the answer", zap.Error(err))
	}
}
