package deliver

import (
	"fmt"
	"net/netip"

	"tandem.internal/controller/internal/notify"
)

// mayReach refuses addresses, as they are after names were looked up: those of no other host, and of the metadata of
// clouds. With local only this machine is left.
func mayReach(address string, local bool) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap().WithZone("")
	switch {
	case notify.NoReceiver(ip):
		return fmt.Errorf("%s is %s", ip, notify.NoReceiverIs)
	case local && !ip.IsLoopback():
		return fmt.Errorf("%s is another machine, and the address begins with http://", ip)
	}
	return nil
}
