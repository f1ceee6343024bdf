package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"workbench/bench/sweep"
)

// Parcel is a row on its way to the coordinator, with further data for its store.
type Parcel struct {
	Row         *sweep.Row         `json:"row"`
	Environment *sweep.Environment `json:"environment"`
	// Plan is compressed, as stores keep it; nil: none.
	Plan []byte `json:"plan,omitempty"`
	// File is the name in the bucket under which the plan is sent if it is too large for a message.
	File string `json:"file,omitempty"`
}

// room is the part of a message that is reserved for the fields other than the plan.
const room = 64 << 10

// Send sends a row to the coordinator, and returns when the queue has it. It waits for an unreachable server.
// Sending a row twice does no harm.
func (q *Queue) Send(ctx context.Context, p Parcel) error {
	id := p.Row.ID
	if base64 := int64(len(p.Plan)) * 4 / 3; base64 > q.nc.MaxPayload()-room {
		p.File = fmt.Sprintf("plan-%s-%d-%s", id, p.Row.Attempt, p.Row.Plan)
		plan := p.Plan
		if err := q.persist(ctx, func(ctx context.Context) error {
			_, err := q.files.PutBytes(ctx, p.File, plan)
			return err
		}); err != nil {
			return err
		}
		p.Plan = nil
	}
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("queue: row %s: %w", id, err)
	}
	return q.persist(ctx, func(ctx context.Context) error {
		_, err := q.js.Publish(ctx, q.rowSubject(id), data, jetstream.WithMsgID(fmt.Sprintf("%s/%d/%s", id, p.Row.Attempt, p.Row.Worker)))
		return err
	})
}

// Collect passes every row that workers send to keep, which must have stored it durably when it returns nil: the
// row is then removed from the queue. It returns when ctx ends, with nil, when keep fails, or when the server is
// unreachable for too long. unread is called for rows that cannot be read; their workers have them in their
// stores.
func (q *Queue) Collect(ctx context.Context, keep func(Parcel) error, unread func(error)) error {
	var gone absence
	for ctx.Err() == nil {
		batch, err := q.rows.Fetch(collectAtOnce, jetstream.FetchMaxWait(collectWait))
		if err == nil {
			for m := range batch.Messages() {
				gone = absence{}
				if err := q.collect(ctx, m, keep, unread); err != nil {
					return err
				}
			}
			err = batch.Error()
		}
		if err == nil || errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoMessages) {
			gone = absence{}
			continue
		}
		if err := q.wait(ctx, &gone, err); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

const (
	collectAtOnce = 64
	collectWait   = 200 * time.Millisecond
)

// collect stores one row, then acknowledges it. If the latter fails, the row is redelivered and the store has it
// already.
func (q *Queue) collect(ctx context.Context, m jetstream.Msg, keep func(Parcel) error, unread func(error)) error {
	var p Parcel
	err := json.Unmarshal(m.Data(), &p)
	if err == nil && (p.Row == nil || p.Environment == nil) {
		err = errors.New("it has no row or no environment")
	}
	if err != nil {
		unread(fmt.Errorf("queue: row at %s cannot be read: %w", m.Subject(), err))
		_ = m.Term()
		return nil
	}
	if p.File != "" {
		if p.Plan, err = q.files.GetBytes(ctx, p.File); errors.Is(err, jetstream.ErrObjectNotFound) {
			// The row was acknowledged before and is redelivered.
			p.Plan, err = nil, nil
		}
		if err != nil {
			return nil // redelivered after the lease
		}
	}
	if err := keep(p); err != nil {
		return err
	}
	if err := m.Ack(); err == nil && p.File != "" {
		_ = q.files.Delete(ctx, p.File)
	}
	return nil
}

// Uncollected returns the number of rows that wait to be collected.
func (q *Queue) Uncollected(ctx context.Context) (int, error) {
	s, err := q.js.Stream(ctx, q.rowsName())
	if err != nil {
		return 0, fmt.Errorf("queue: %w", err)
	}
	return int(s.CachedInfo().State.Msgs), nil
}
