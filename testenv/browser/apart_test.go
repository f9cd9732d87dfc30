package browser

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"testing"

	"tandem.internal/testenv/fleet"
)

// asNodes has this program be nodes that are in step with what they are given, at the broker with the address that is
// its value, until its input ends.
const asNodes = "TANDEM_BROWSER_NODES"

func TestMain(m *testing.M) {
	address := os.Getenv(asNodes)
	if address == "" {
		os.Exit(m.Run())
	}
	if err := beNodes(address, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func beNodes(address, number string) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	debug.SetGCPercent(400) // they shall take little from what is measured
	f := fleet.New(fleetOf(n, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}))
	defer f.Close()
	f.Start()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := f.AwaitOnline(ctx, n); err != nil {
		return err
	}
	fmt.Println("online")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// apart starts nodes in a process of their own, so that neither their work nor their memory is the controller's. It
// returns when all are connected.
func (r *rig) apart(n int) {
	r.t.Helper()
	cmd := exec.Command(os.Args[0], strconv.Itoa(n))
	cmd.Env = append(os.Environ(), asNodes+"="+r.app.Addr().String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = in.Close() // it may have ended
		if err := cmd.Wait(); err != nil {
			r.t.Error("the nodes:", err)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "online\n" {
		r.t.Fatalf("the nodes are not connected: %q %v", line, err)
	}
}
