package queue

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"workbench/bench/sweep/queue/shard"
)

// deployed is the folder of the files for clusters and timers.
const deployed = "../../../docs/deploy"

// stub writes programs that stand in for others into a folder and returns an
// environment in which they come first. Each appends its arguments to the file
// named by LOG.
func stub(t *testing.T, programs map[string]string) (env []string, log string) {
	t.Helper()
	dir := t.TempDir()
	for name, body := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	log = filepath.Join(dir, "log")
	return append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "LOG="+log), log
}

const record = `echo "workbench $*" >>"$LOG"` + "\n"

func contents(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Every element of the array does a shard of its own into a folder of its own.
func TestSlurmArray(t *testing.T) {
	script := filepath.Join(deployed, "slurm-shards.sbatch")
	m := regexp.MustCompile(`(?m)^#SBATCH --array=(\d+)-(\d+)$`).FindStringSubmatch(contents(t, script))
	if m == nil {
		t.Fatal("no --array")
	}
	first, _ := strconv.Atoi(m[1])
	last, _ := strconv.Atoi(m[2])
	shards, folders := map[shard.Shard]bool{}, map[string]bool{}
	for id := first; id <= last; id++ {
		vars := map[string]string{
			"SLURM_ARRAY_TASK_ID": fmt.Sprint(id), "SLURM_ARRAY_TASK_MIN": m[1], "SLURM_ARRAY_TASK_STEP": "1",
			"SLURM_ARRAY_TASK_COUNT": fmt.Sprint(last - first + 1), "SLURM_CPUS_PER_TASK": "8", "SPEC": "a b.yaml", "SWEEP": "/s/night",
		}
		env, log := stub(t, map[string]string{"workbench": record})
		for k, v := range vars {
			env = append(env, k+"="+v)
		}
		cmd := exec.Command("bash", script)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		want := fmt.Sprintf("workbench bench run a b.yaml --into /s/night.shard-%d --resume --jobs 8\n", id)
		if got := contents(t, log); got != want {
			t.Errorf("element %d: got %q, want %q", id, got, want)
		}
		folders[contents(t, log)] = true
		s, _, err := shard.FromEnvironment(func(k string) (string, bool) { v, ok := vars[k]; return v, ok })
		if err != nil {
			t.Error(err)
		}
		shards[s] = true
	}
	if n := last - first + 1; len(shards) != n || len(folders) != n {
		t.Errorf("%d elements do %d shards in %d folders", n, len(shards), len(folders))
	}
	cmd := exec.Command("bash", script)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "the specification of the sweep") {
		t.Errorf("without SPEC: %v, %s", err, out)
	}
}

// An element that is out of time finishes what runs and is queued again; one that
// is told to end, or that fails, is not.
func TestSlurmOutOfTime(t *testing.T) {
	for _, tt := range []struct {
		name     string
		signal   os.Signal
		runs     string
		requeued bool
		status   int
	}{
		{"out of time", syscall.SIGUSR1, waitsForTERM, true, 0},
		{"told to end", syscall.SIGTERM, waitsForTERM, false, 1},
		{"fails", nil, "exit 2\n", false, 2},
		{"done", nil, "", false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env, log := stub(t, map[string]string{"workbench": record + tt.runs, "scontrol": `echo "scontrol $*" >>"$LOG"` + "\n"})
			cmd := exec.Command("bash", filepath.Join(deployed, "slurm-shards.sbatch"))
			cmd.Env = append(env, "SPEC=s.yaml", "SWEEP=s", "SLURM_ARRAY_JOB_ID=7", "SLURM_ARRAY_TASK_ID=3")
			signalWhenLogged(t, cmd, log, tt.signal, tt.status)
			got := contents(t, log)
			if tt.requeued != strings.HasSuffix(got, "scontrol requeue 7_3\n") || tt.signal != nil && !strings.Contains(got, "finished\n") {
				t.Errorf("got\n%s", got)
			}
		})
	}
}

// waitsForTERM is a run that ends in its own time.
const waitsForTERM = `trap 'sleep 0.3; echo finished >>"$LOG"; exit 1' TERM
echo ready >>"$LOG"
while :; do sleep 0.05; done
`

// signalWhenLogged runs a script, sends it a signal when its run is ready, and checks the
// status with which it ends.
func signalWhenLogged(t *testing.T, cmd *exec.Cmd, log string, signal os.Signal, status int) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// If the script ends and leaves its run behind, that is an error and no hang.
	cmd.WaitDelay = 20 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if signal != nil {
		for range 500 {
			if text, err := os.ReadFile(log); err == nil && bytes.Contains(text, []byte("ready\n")) {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("ended with status %d, want %d\n%s", got, status, &out)
	}
}

// manifest has what our files say to Kubernetes, under the names that its API has
// for it (k8s.io/api, batch/v1 and core/v1). Anything else is refused.
type manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		// of a Job
		CompletionMode           string `yaml:"completionMode"`
		Completions, Parallelism int
		BackoffLimit             int `yaml:"backoffLimit"`
		BackoffLimitPerIndex     int `yaml:"backoffLimitPerIndex"`
		PodFailurePolicy         struct {
			Rules []struct {
				Action      string
				OnExitCodes struct {
					ContainerName string `yaml:"containerName"`
					Operator      string
					Values        []int
				} `yaml:"onExitCodes"`
				OnPodConditions []struct{ Type string } `yaml:"onPodConditions"`
			}
		} `yaml:"podFailurePolicy"`
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				RestartPolicy   string `yaml:"restartPolicy"`
				SecurityContext struct {
					RunAsNonRoot bool                  `yaml:"runAsNonRoot"`
					RunAsUser    int                   `yaml:"runAsUser"`
					RunAsGroup   int                   `yaml:"runAsGroup"`
					FSGroup      int                   `yaml:"fsGroup"`
					Seccomp      struct{ Type string } `yaml:"seccompProfile"`
				} `yaml:"securityContext"`
				TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
				Containers                    []struct {
					Name, Image string
					WorkingDir  string `yaml:"workingDir"`
					Security    struct {
						Escalation   *bool `yaml:"allowPrivilegeEscalation"`
						Capabilities struct{ Drop []string }
					} `yaml:"securityContext"`
					Command, Args []string
					Env           []struct{ Name, Value string }
					Resources     struct{ Requests, Limits map[string]string }
					VolumeMounts  []struct {
						Name      string
						MountPath string `yaml:"mountPath"`
						ReadOnly  bool   `yaml:"readOnly"`
					} `yaml:"volumeMounts"`
				}
				Volumes []struct {
					Name      string
					ConfigMap struct{ Name string } `yaml:"configMap"`
					Secret    struct {
						SecretName string `yaml:"secretName"`
					}
					Claim struct {
						ClaimName string `yaml:"claimName"`
					} `yaml:"persistentVolumeClaim"`
					EmptyDir struct{} `yaml:"emptyDir"`
				}
			}
		}
		// of a Service
		Selector map[string]string
		Ports    []struct{ Port int }
		// of a PersistentVolumeClaim
		AccessModes []string `yaml:"accessModes"`
		Resources   struct{ Requests map[string]string }
	}
}

func manifests(t *testing.T, name string) map[string]manifest {
	t.Helper()
	all := map[string]manifest{}
	dec := yaml.NewDecoder(strings.NewReader(contents(t, filepath.Join(deployed, name))), yaml.Strict())
	for {
		var m manifest
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[m.Kind+" "+m.Metadata.Name] = m
		if want := map[string]string{"Job": "batch/v1", "Service": "v1", "PersistentVolumeClaim": "v1"}[m.Kind]; m.APIVersion != want {
			t.Errorf("%s: %s is of %q, want %q", name, m.Kind, m.APIVersion, want)
		}
		for _, c := range m.Spec.Template.Spec.Containers {
			for _, mount := range c.VolumeMounts {
				found := false
				for _, v := range m.Spec.Template.Spec.Volumes {
					found = found || v.Name == mount.Name
				}
				if !found {
					t.Errorf("%s: %s has no volume %q", name, m.Metadata.Name, mount.Name)
				}
			}
		}
	}
	return all
}

func TestKubernetesShards(t *testing.T) {
	job, ok := manifests(t, "kubernetes-shards.yaml")["Job workbench-shards"]
	if !ok || job.Spec.CompletionMode != "Indexed" || job.Spec.Completions < 2 {
		t.Fatalf("no Indexed Job: %+v", job)
	}
	c := job.Spec.Template.Spec.Containers[0]
	for _, e := range c.Env {
		if e.Name == shard.Variable && e.Value == fmt.Sprint(job.Spec.Completions) {
			ok = false
		}
	}
	if ok {
		t.Errorf("%s is not the number of completions", shard.Variable)
	}
	env, log := stub(t, map[string]string{"workbench": record})
	cmd := exec.Command(c.Command[0], append(c.Command[1:], c.Args...)...)
	cmd.Env = append(env, "JOB_COMPLETION_INDEX=3")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got, want := contents(t, log), "workbench bench run /spec/night.yaml --into /sweeps/night.shard-3 --resume --jobs 8\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Pods run as the image's user, to whom the volumes belong: else a claim is root's, and
// nothing can be written.
func TestPodsRunAsTheUserOfTheImage(t *testing.T) {
	jobs := 0
	for _, file := range []string{"kubernetes-queue.yaml", "kubernetes-shards.yaml"} {
		for name, m := range manifests(t, file) {
			if m.Kind != "Job" {
				continue
			}
			jobs++
			u := m.Spec.Template.Spec.SecurityContext
			if user := fmt.Sprintf("\nUSER %d:%d\n", u.RunAsUser,
				u.RunAsGroup); !strings.Contains(contents(t, filepath.Join(deployed, "Dockerfile")), user) {
				t.Errorf("%s: the image has no %q", name, user)
			}
			// Pod Security "restricted", but for the volumes, which are of its kinds.
			for _, c := range m.Spec.Template.Spec.Containers {
				x := c.Security
				if x.Escalation == nil || *x.Escalation || !slices.Equal(x.Capabilities.Drop, []string{"ALL"}) || u.Seccomp.Type != "RuntimeDefault" {
					t.Errorf("%s: not restricted: %+v, %+v", name, x, u)
				}
				if !strings.Contains(c.Image, "@sha256:") {
					t.Errorf("%s: the image %s is not pinned by digest", name, c.Image)
				}
			}
			for _, v := range m.Spec.Template.Spec.Volumes {
				if _, made := manifests(t, file)["PersistentVolumeClaim "+v.Claim.ClaimName]; v.Claim.ClaimName != "" && !made {
					t.Errorf("%s: nothing makes the claim %s", name, v.Claim.ClaimName)
				}
			}
			if !u.RunAsNonRoot || u.RunAsUser == 0 || u.FSGroup != u.RunAsGroup {
				t.Errorf("%s: %+v", name, u)
			}
		}
	}
	if jobs != 3 {
		t.Errorf("%d jobs", jobs)
	}
}

func TestKubernetesQueue(t *testing.T) {
	all := manifests(t, "kubernetes-queue.yaml")
	service, serve, work := all["Service workbench-queue"], all["Job workbench-serve"], all["Job workbench-work"]
	for k, v := range service.Spec.Selector {
		if serve.Spec.Template.Metadata.Labels[k] != v {
			t.Errorf("the service selects %s=%s, the server has %v", k, v, serve.Spec.Template.Metadata.Labels)
		}
	}
	port := service.Spec.Ports[0].Port
	args := strings.Join(serve.Spec.Template.Spec.Containers[0].Args, " ")
	if want := fmt.Sprintf("--listen 0.0.0.0:%d --token-file /secret/token", port); !strings.Contains(args, want) {
		t.Errorf("the server is started with %q, not %q", args, want)
	}
	args = strings.Join(work.Spec.Template.Spec.Containers[0].Args, " ")
	if want := fmt.Sprintf("--queue nats://workbench-queue:%d --token-file /secret/token", port); !strings.Contains(args, want) {
		t.Errorf("workers are started with %q, not %q", args, want)
	}
}

// nightly runs the script of one night with a workbench that is that script.
func nightly(t *testing.T, nights, today, workbench string) (out, log string, err error) {
	t.Helper()
	env, logName := stub(t, map[string]string{"workbench": record + workbench, "date": "echo " + today})
	cmd := exec.Command("sh", filepath.Join(deployed, "nightly.sh"), "spec.yaml", nights)
	cmd.Env = env
	text, err := cmd.CombinedOutput()
	return string(text), contents(t, logName), err
}

const makesSweep = `case $2 in
run) mkdir -p "$5" ;;
report) touch "$3/report.html" ;;
esac
`

func TestNightlyScript(t *testing.T) {
	nights := filepath.Join(t.TempDir(), "the nights")
	runs := "workbench bench run spec.yaml --into " + nights + "/%[1]s --resume\n"
	pruned := "workbench bench prune " + nights + " --keep 30\n"
	report := "workbench bench report " + nights + "/%[1]s\n"
	compared := func(earlier string) string {
		if earlier != "" {
			earlier = " --before " + nights + "/" + earlier
		}
		return "workbench bench report " + nights + "/%[1]s --before " + nights + "/%[2]s" + earlier + "\n" +
			"workbench bench compare " + nights + "/%[2]s " + nights + "/%[1]s\n"
	}
	history := func(days ...string) string {
		s := "workbench bench history"
		for _, d := range days {
			s += " " + nights + "/" + d
		}
		return s + " --html " + nights + "/history.html\n"
	}
	if err := os.MkdirAll(filepath.Join(nights, "2026-11-01"), 0o755); err != nil { // was not done
		t.Fatal(err)
	}
	accept := func(night string) {
		if err := os.WriteFile(filepath.Join(nights, "accepted"), []byte(night+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ today, before, want, accepted string }{
		{"2026-11-20", "", runs + report + pruned, ""},
		{"2026-11-21", "2026-11-20", runs + compared("") + pruned, ""},
		{"2026-11-21", "2026-11-20", runs + compared("") + pruned, ""},
		{"2026-11-23", "2026-11-21", runs + compared("2026-11-20") + history("2026-11-20", "2026-11-21", "2026-11-23") + pruned, ""},
		{"2026-11-24", "2026-11-23", runs + compared("2026-11-21") + history("2026-11-21", "2026-11-23", "2026-11-24") + pruned, "2026-11-21"},
		{"2026-11-24", "2026-11-23", runs + compared("2026-11-21") + pruned, "2026-11-23"},
	} {
		if tt.accepted != "" {
			accept(tt.accepted)
		}
		want := fmt.Sprintf(tt.want+"%.0[2]s", tt.today, tt.before)
		out, log, err := nightly(t, nights, tt.today, makesSweep)
		if err != nil || log != want {
			t.Errorf("%s: %v %s\ngot\n%swant\n%s", tt.today, err, out, log, want)
		}
		if lines := strings.Count(out, "\n"); lines == 0 || lines > 12 {
			t.Errorf("%s: a summary of %d lines:\n%s", tt.today, lines, out)
		}
	}
	var exit *exec.ExitError
	for _, tt := range []struct {
		fails  string
		status int
		last   string
	}{
		{"[ $2 != compare ]\n", 1, "prune"},
		{"[ $2 != run ] || exit 6\n", 6, "prune"},                           // tasks failed: all else is done
		{"case $2 in run) exit 6 ;; compare) exit 1 ;; esac\n", 1, "prune"}, // worse counts more
		{"exit 4\n", 4, "run"},
	} {
		_, log, err := nightly(t, nights, "2026-11-25", makesSweep+tt.fails)
		lines := strings.Split(strings.TrimSpace(log), "\n")
		if !errors.As(err, &exit) || exit.ExitCode() != tt.status || !strings.HasPrefix(lines[len(lines)-1], "workbench bench "+tt.last) {
			t.Errorf("%s: %v, want %d\n%s", tt.fails, err, tt.status, log)
		}
	}
}

// Who stops the script stops the run, which ends in its own time.
func TestNightlyScriptPassesOnSignals(t *testing.T) {
	env, log := stub(t, map[string]string{"workbench": record + waitsForTERM, "date": "echo 2026-11-20"})
	cmd := exec.Command("sh", filepath.Join(deployed, "nightly.sh"), "spec.yaml", t.TempDir())
	cmd.Env = env
	signalWhenLogged(t, cmd, log, syscall.SIGTERM, 1)
	if got := contents(t, log); !strings.HasSuffix(got, "finished\n") {
		t.Errorf("did not wait for the run:\n%s", got)
	}
}

func TestCron(t *testing.T) {
	jobs := 0
	for line := range strings.Lines(contents(t, filepath.Join(deployed, "workbench.cron"))) {
		if strings.HasPrefix(line, "#") || regexp.MustCompile(`^[A-Z]+=`).MatchString(line) {
			continue
		}
		jobs++
		job := regexp.MustCompile(`^\d+ \d+ \* \* \* ([^/]*)/\S+/nightly\.sh \S+ /[^ )]+(.*)\n$`).FindStringSubmatch(line)
		if job == nil || strings.Contains(line, "%") {
			t.Fatalf("no line of a crontab: %q", line)
		}
		for status, want := range []string{"", "summary\n"} { // cron mails what is printed
			night := fmt.Sprintf("sh -c 'echo summary; exit %d'", status)
			out, err := exec.Command("sh", "-c", job[1]+night+job[2]).CombinedOutput()
			if err != nil || string(out) != want {
				t.Errorf("a night of status %d: mail %q, %v, want %q", status, out, err, want)
			}
		}
	}
	if jobs != 1 {
		t.Errorf("%d jobs", jobs)
	}
}

func TestSystemdUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	dir := t.TempDir()
	names := []string{"workbench-nightly.service", "workbench-nightly.timer", "workbench-worker.service", "workbench-failed@.service"}
	for _, name := range names {
		text := contents(t, filepath.Join(deployed, name))
		text = regexp.MustCompile(`ExecStart=\S+`).ReplaceAllString(text, "ExecStart=/bin/true") // the rest is there
		text = regexp.MustCompile(`User=\S+`).ReplaceAllString(text, "User=root")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{names[0], names[2]} { // 40: 4.0 of 10
		out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=40", filepath.Join(dir, name)).CombinedOutput()
		if err != nil && !strings.Contains(string(out), "unrecognized option") { // before systemd 250
			t.Errorf("%s: exposed more than 4.0 of 10:\n%s", name, out)
		}
	}
	for _, name := range names {
		out, err := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no", filepath.Join(dir, name)).CombinedOutput()
		if err != nil || strings.Contains(string(out), name) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestShellcheck(t *testing.T) {
	program, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip("shellcheck is not installed")
	}
	if out, err := exec.Command(program, filepath.Join(deployed, "nightly.sh"),
		filepath.Join(deployed, "slurm-shards.sbatch")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
