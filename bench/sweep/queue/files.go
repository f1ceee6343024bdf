package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"workbench/bench/solve"
)

func instanceName(digest string) string { return "instance-" + digest }

// PutInstance puts an instance into the queue under its digest, for workers that do not share a disk with the
// coordinator. An existing one is not sent.
func (q *Queue) PutInstance(ctx context.Context, digest string, instance []byte) error {
	if _, err := q.files.GetInfo(ctx, instanceName(digest)); err == nil {
		return nil
	}
	if _, err := q.files.Put(ctx, jetstream.ObjectMeta{Name: instanceName(digest)}, bytes.NewReader(instance)); err != nil {
		return fmt.Errorf("queue: instance %s: %w", digest, err)
	}
	return nil
}

// Instance returns the file of the instance with that digest. The reader must check its digest.
func (q *Queue) Instance(ctx context.Context, digest string) ([]byte, error) {
	var data []byte
	err := q.persist(ctx, func(ctx context.Context) (err error) {
		data, err = q.files.GetBytes(ctx, instanceName(digest))
		if errors.Is(err, jetstream.ErrObjectNotFound) {
			err = nil
		}
		return err
	})
	if err == nil && data == nil {
		err = solve.InputError(fmt.Errorf("queue: instance %s is not in the queue of sweep %q", digest, q.Sweep))
	}
	return data, err
}
