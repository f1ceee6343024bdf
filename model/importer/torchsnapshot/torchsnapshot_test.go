package torchsnapshot_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/importer/torchsnapshot"
	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
)

// snapshot is what PyTorch returns, as JSON: w is there before the trace begins, a and b
// are of a step, c lives on after it.
const snapshot = `{
 "segments": [{"device": 0, "address": 4096, "total_size": 8192, "stream": 0, "blocks": [
   {"address": 4096, "size": 512, "requested_size": 500, "state": "active_allocated"},
   {"address": 4608, "size": 1024, "requested_size": 0, "state": "inactive"},
   {"address": 5632, "size": 1024, "requested_size": 1000, "state": "active_allocated"}]}],
 "device_traces": [[
   {"action": "alloc", "addr": 4608, "size": 1024, "stream": 0, "time_us": 1, "frames": [{"filename": "net.py", "line": 7, "name": "forward"}]},
   {"action": "segment_alloc", "addr": 8192, "size": 2048, "stream": 0, "time_us": 2, "frames": []},
   {"action": "alloc", "addr": 8192, "size": 2048, "stream": 7, "time_us": 3, "frames": []},
   {"action": "free_requested", "addr": 4608, "size": 1024, "stream": 0, "time_us": 4, "frames": []},
   {"action": "free_completed", "addr": 4608, "size": 1024, "stream": 0, "time_us": 5, "frames": []},
   {"action": "free_completed", "addr": 8192, "size": 2048, "stream": 7, "time_us": 6, "frames": []},
   {"action": "segment_free", "addr": 8192, "size": 2048, "stream": 0, "time_us": 7, "frames": []},
   {"action": "alloc", "addr": 5632, "size": 1000, "stream": 0, "time_us": 8, "frames": []}
 ]]}`

func read(t *testing.T, text string, o torchsnapshot.Options) (*lifetimes.Lifetimes, []string) {
	t.Helper()
	l, warnings, err := torchsnapshot.Read(strings.NewReader(text), "f", o)
	if err != nil {
		t.Fatal(err)
	}
	return l, warnings
}

func TestRead(t *testing.T) {
	l, warnings := read(t, snapshot, torchsnapshot.Options{Device: -1})
	want := []lifetimes.Buffer{
		{ID: "b0", Lower: 0, Upper: 8, Size: 500},
		{ID: "b1", Lower: 0, Upper: 4, Size: 1024},
		{ID: "b2", Lower: 2, Upper: 5, Size: 2048},
		{ID: "b3", Lower: 7, Upper: 8, Size: 1000},
	}
	if diff := cmp.Diff(want, l.Buffers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if l.Align != 512 || l.Source["reserved"] != int64(10240) || l.Source["load"] != int64(3572) {
		t.Errorf("alignment %d, %v", l.Align, l.Source)
	}
	if diff := cmp.Diff([]string{
		"the caching allocator reserved 10240 bytes for a load of 3572",
		"1 block from before the part and 2 blocks to after it live on: they are cut at its ends",
	}, warnings); diff != "" {
		t.Error(diff)
	}
	part, _ := read(t, snapshot, torchsnapshot.Options{Device: 0, From: 3, To: 5})
	if len(part.Buffers) != 3 || part.Buffers[1].Lower != 3 || part.Buffers[2].Upper != 5 {
		t.Errorf("a part: %+v", part.Buffers)
	}
}

// What is written is read back, and is a pickle that Python reads.
func TestWrite(t *testing.T) {
	l, _ := read(t, snapshot, torchsnapshot.Options{Device: -1})
	p := plan.New(plan.Placement, "test", l, platform.Platform{Memory: 1 << 20})
	for i, at := range []float64{0, 512, 1536, 512} {
		p.Offsets = append(p.Offsets, plan.Offset{ID: l.Buffers[i].ID, Offset: at})
	}
	var b bytes.Buffer
	if err := torchsnapshot.Write(&b, p, l); err != nil {
		t.Fatal(err)
	}
	again, _ := read(t, b.String(), torchsnapshot.Options{Device: -1})
	if len(again.Buffers) != len(l.Buffers) || again.Source["load"] != l.Source["load"] || again.Source["reserved"] != int64(3584) {
		t.Errorf("read back: %+v %v", again.Buffers, again.Source)
	}
	file := filepath.Join(t.TempDir(), "snapshot.pickle")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no Python")
	}
	script := "import pickle,sys; s=pickle.load(open(sys.argv[1],'rb')); print(len(s['device_traces'][0]), " +
		"s['segments'][0]['total_size'], s['segments'][0]['segment_pool_id'])\n" +
		"for k in range(2, 6): pickle.dump(s, open(sys.argv[1]+str(k), 'wb'), protocol=k)"
	out, err := exec.Command(python, "-c", script, file).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "13 3584 (0, 0)" {
		t.Fatalf("%v: %s", err, out)
	}
	for _, protocol := range "2345" { // as Python writes it
		data, err := os.ReadFile(file + string(protocol))
		if err != nil {
			t.Fatal(err)
		}
		same, _ := read(t, string(data), torchsnapshot.Options{Device: -1})
		if diff := cmp.Diff(again, same); diff != "" {
			t.Errorf("protocol %c (-want +got):\n%s", protocol, diff)
		}
	}
}

func TestErrors(t *testing.T) {
	for name, x := range map[string]struct {
		text string
		o    torchsnapshot.Options
		want string
	}{
		"objects": {
			"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.",
			torchsnapshot.Options{Device: -1},
			"f: pickle, byte 15: it asks for os.system",
		},
		"old objects": {"\x80\x02cos\nsystem\n.", torchsnapshot.Options{Device: -1}, "f: pickle, byte 13: it asks for os.system"},
		"protocol 0":  {"(dp0\n.", torchsnapshot.Options{Device: -1}, "f: pickle, byte 3: opcode 'p' is not read"},
		"protocol 6":  {"\x80\x06.", torchsnapshot.Options{Device: -1}, "f: pickle, byte 2: protocol 6"},
		"cut off":     {"\x80\x04X\xff", torchsnapshot.Options{Device: -1}, "f: pickle, byte 3: it ends too early"},
		"empty stack": {"\x80\x04.", torchsnapshot.Options{Device: -1}, "f: pickle, byte 3: it takes from an empty stack"},
		"no snapshot": {"\x80\x04}.", torchsnapshot.Options{Device: -1}, "f: it has no device_traces"},
		"no history":  {`{"device_traces": [[]]}`, torchsnapshot.Options{Device: -1}, "f: no device has events"},
		"two devices": {
			`{"device_traces": [[{"action": "oom"}], [{"action": "oom"}]]}`,
			torchsnapshot.Options{Device: -1},
			"f: devices 0, 1 have events; --device N says which",
		},
		"other device": {
			`{"device_traces": [[{"action": "oom"}]]}`,
			torchsnapshot.Options{Device: 3},
			"f: device 3 has no events; devices with events: 0",
		},
		"no such part": {snapshot, torchsnapshot.Options{Device: -1, From: 5, To: 99}, "f: --between 5,99: the device has events 0 to 8"},
		"nothing lives": {
			`{"device_traces": [[{"action": "oom"}]]}`,
			torchsnapshot.Options{Device: -1},
			"f: buffers: at least one buffer is needed",
		},
	} {
		_, _, err := torchsnapshot.Read(strings.NewReader(x.text), "f", x.o)
		if err == nil || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("%s: %v, want %s…", name, err, x.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(snapshot))
	f.Add([]byte("\x80\x04}\x94(K\x01]\x94e."))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _, _ = torchsnapshot.Read(bytes.NewReader(data), "fuzz", torchsnapshot.Options{Device: -1}) // it must not panic
	})
}
