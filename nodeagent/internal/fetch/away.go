package fetch

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"

	"tandem.internal/shared/imds"
	"tandem.internal/shared/wire"
)

// byName marks the requests to a host by its name: whoever answers for that name chooses where they lead. Who wants
// this node itself says so by its address, or localhost. What goes by a proxy is the proxy's to judge.
type byName struct{ http.RoundTripper }

func (n byName) RoundTrip(req *http.Request) (*http.Response, error) {
	host := req.URL.Hostname()
	_, err := netip.ParseAddr(host)
	proxy, perr := http.ProxyFromEnvironment(req)
	if err != nil && host != "localhost" && perr == nil && proxy == nil && req.Context().Value(led{}) == nil {
		req = req.WithContext(context.WithValue(req.Context(), led{}, host+" is at "))
	}
	return n.RoundTripper.RoundTrip(req)
}

// led marks the requests whose address is not what the resource's own names. Its value begins the error.
type led struct{}

// away keeps those from the node itself and its neighbours on the link: what listens there, such as programs without
// passwords and a cloud's service of metadata, answers whoever asks from this machine.
func away(own func() ([]net.Addr, error)) func(context.Context, string, string, syscall.RawConn) error {
	return func(ctx context.Context, _, address string, _ syscall.RawConn) error {
		how, ok := ctx.Value(led{}).(string)
		if !ok {
			return nil
		}
		to, err := netip.ParseAddrPort(address)
		ip := imds.Behind(to.Addr())
		switch {
		case err != nil || !ip.IsGlobalUnicast():
			return Passing(wire.CodeNotAllowed, how+address+", which is this node, or no more than its link")
		case imds.Serves(ip):
			return Passing(wire.CodeNotAllowed, how+address+", where a cloud tells its machines their secrets")
		}
		all, err := own()
		if err != nil {
			return Passing(wire.CodeUnavailable, fmt.Sprintf("%s%s, and the addresses of this node are not known: %v",
				how, address, err))
		}
		for _, a := range all {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap() == ip {
				return Passing(wire.CodeNotAllowed, how+address+", which is this node")
			}
		}
		return nil
	}
}
