package distribute

import (
	"context"
	"fmt"
	"time"

	"tandem.internal/controller/internal/caller"
	"tandem.internal/controller/internal/fleet"
	"tandem.internal/controller/internal/op"
	"tandem.internal/controller/internal/view"
	"tandem.internal/shared/runlog"
	"tandem.internal/shared/wire"
)

// NodeLog asks a node for a piece of its agent's own log. That somebody reads it is journaled, once an hour.
func (c *Core) NodeLog(ctx context.Context, in op.NodeLogIn) (view.NodeLog, error) {
	p := wire.AgentLogParams{Cursor: in.Cursor, Lines: in.Lines, Level: in.Level}
	l, err := inquire[wire.AgentLog](ctx, c, in.Node, wire.MethodAgentLog, wire.Encode(&p),
		"read the log of the agent of "+in.Node, "does not show its own log")
	if err != nil {
		return view.NodeLog{}, err
	}
	return view.NodeLog{Node: in.Node, AgentLog: *l}, nil
}

// inquire asks a node for something that it has. what is for the journal; "": it is no one's business who asks. lacks
// says what an agent does not do that is older than the question; "": it says so itself.
func inquire[R wire.Message](
	ctx context.Context, c *Core, node string, m wire.Method, params []byte, what, lacks string,
) (*R, error) {
	who := caller.From(ctx).Who()
	a := c.ask(ctx, func(t uint64) fleet.Event {
		return fleet.Query{Ticket: t, Node: node, Method: m, Params: params, Who: who, What: what}
	})
	if a.Err != nil {
		return nil, older(a.Err, node, lacks)
	}
	r, err := wire.Decode[R](a.Data)
	if err != nil {
		why := "the node's answer cannot be read: " + err.Error()
		return nil, &wire.Error{Code: wire.CodeInternal, Message: why, Node: node}
	}
	return r, nil
}

// older says of a node's not-supported that its agent is older than what it was asked for.
func older(err error, node, lacks string) error {
	if e := wire.AsError(err); lacks != "" && e.Code == wire.CodeNotSupported && e.Node == node {
		return &wire.Error{Code: e.Code, Node: node,
			Message: "the agent there " + lacks + ": it is older than that; update it"}
	}
	return err
}

// SetNodeLogLevel has a node's agent log more or less for a while.
func (c *Core) SetNodeLogLevel(ctx context.Context, in op.NodeLogLevel) (view.Ordered, error) {
	r, err := orderNode(ctx, c, in.Node, wire.MethodLogLevel, in.Wire())
	if err != nil {
		return r, older(err, in.Node, "logs what its settings say, always")
	}
	return r, nil
}

// LogLevel is what the controller logs.
func (c *Core) LogLevel(context.Context) (view.LogLevel, error) {
	level, until := c.cfg.LogLevel.Now()
	return view.LogLevel{Level: level.String(), Until: until.UTC().Round(0)}, nil
}

// SetLogLevel has the controller log more or less for a while, once that is in the journal.
func (c *Core) SetLogLevel(ctx context.Context, in op.LogFor) (view.LogLevel, error) {
	text, within := "the log level of the controller is that of its settings again", in.Wire().Within()
	if in.Level != "" {
		text = fmt.Sprintf("the log level of the controller is %s until %s", in.Level,
			c.cfg.Now().Add(within).UTC().Format(time.RFC3339))
	}
	if err := c.Remark(ctx, view.Remark{Text: text}); err != nil {
		return view.LogLevel{}, err
	}
	if in.Level == "" {
		c.cfg.LogLevel.Reset()
	} else {
		level, err := runlog.Parse(in.Level)
		if err != nil {
			return view.LogLevel{}, wire.New(wire.CodeBadValue, "/level", err.Error())
		}
		c.cfg.LogLevel.Set(level, within)
	}
	c.cfg.Log.Info(text)
	return c.LogLevel(ctx)
}
