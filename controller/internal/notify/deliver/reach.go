package deliver

import (
	"fmt"
	"net/netip"

	"tandem.internal/shared/imds"
)

// mayReach refuses addresses, as they are after names were looked up: those of no other host, and of the metadata of
// clouds. With local only this machine is left.
func mayReach(address string, local bool) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap().WithZone("")
	to := imds.Behind(ip)
	switch {
	case to.IsUnspecified(), to.IsMulticast(), to.IsLinkLocalUnicast(), imds.Serves(to):
		return fmt.Errorf("%s is no address of a receiver", ip)
	case local && !ip.IsLoopback():
		return fmt.Errorf("%s is another machine, and the address begins with http://", ip)
	}
	return nil
}
