// Fills HiveD's published core with gangs and empties it again, and prints what that took.
//
//	driver CONFIGURATION FILLS [PROFILE]
//
// CONFIGURATION is in HiveD's own form. FILLS is JSON: the node names, and for each fill the gangs in their
// order and the order in which they end. The first fill warms up. Each line that it prints is one fill: the
// processor seconds of all threads within the core's three calls, the seconds of making the pods that pass a
// decision on, the GPUs that gangs held when all had been scheduled, and how many gangs waited. The core's log
// is formatted, as it always is, and thrown away. With PROFILE a profile for `go tool pprof` is written there.
//
// benchmarks/bench_cells.py builds it inside a copy of the published repository, as its package `pkg/driver`.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io/ioutil"
	"os"
	"runtime"
	"runtime/pprof"
	"syscall"
	"unsafe"

	"github.com/microsoft/hivedscheduler/pkg/algorithm"
	"github.com/microsoft/hivedscheduler/pkg/api"
	"github.com/microsoft/hivedscheduler/pkg/common"
	"github.com/microsoft/hivedscheduler/pkg/internal"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog"
)

type gang struct {
	Name     string
	Owner    string
	Priority int32
	Pods     int32
	Gpus     int32
}

type fill struct {
	Gangs []gang
	Ends  []string
}

type work struct {
	Nodes []string
	Fills []fill
}

type outcome struct {
	Schedule float64 `json:"schedule"`
	Add      float64 `json:"add"`
	Delete   float64 `json:"delete"`
	Reading  float64 `json:"reading"`
	Passing  float64 `json:"passing"`
	Gpus     int     `json:"gpus"`
	Waiting  int     `json:"waiting"`
}

const processorTime = 2 // CLOCK_PROCESS_CPUTIME_ID

func processorSeconds() float64 {
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, processorTime, uintptr(unsafe.Pointer(&now)), 0)
	return float64(now.Sec) + float64(now.Nsec)/1e9
}

func timed(total *float64, call func()) {
	began := processorSeconds()
	call()
	*total += processorSeconds() - began
}

// podsOf returns the pods of a gang as Kubernetes would send them.
func podsOf(each gang) []*core.Pod {
	specification := common.ToYaml(api.PodSchedulingSpec{
		VirtualCluster:          api.VirtualClusterName(each.Owner),
		Priority:                each.Priority,
		LeafCellNumber:          each.Gpus,
		IgnoreK8sSuggestedNodes: true,
		AffinityGroup: &api.AffinityGroupSpec{
			Name:    each.Name,
			Members: []api.AffinityGroupMemberSpec{{PodNumber: each.Pods, LeafCellNumber: each.Gpus}},
		},
	})
	var pods []*core.Pod
	for number := int32(0); number < each.Pods; number++ {
		name := fmt.Sprintf("%v-%v", each.Name, number)
		pods = append(pods, &core.Pod{ObjectMeta: meta.ObjectMeta{
			Name:        name,
			Namespace:   "default",
			UID:         types.UID(name),
			Annotations: map[string]string{api.AnnotationKeyPodSchedulingSpec: specification},
		}})
	}
	return pods
}

func run(hived *algorithm.HivedAlgorithm, nodes []string, given fill) outcome {
	var found outcome
	var pods [][]*core.Pod
	for _, each := range given.Gangs {
		pods = append(pods, podsOf(each))
	}
	held := map[string][]*core.Pod{}
	runtime.GC()
	for place, each := range given.Gangs {
		for _, pod := range pods[place] {
			var answer internal.PodScheduleResult
			timed(&found.Schedule, func() { answer = hived.Schedule(pod, nodes, internal.FilteringPhase) })
			if answer.PodBindInfo == nil {
				found.Waiting++
				break
			}
			var bound *core.Pod
			timed(&found.Passing, func() { bound = internal.NewBindingPod(pod, answer.PodBindInfo) })
			timed(&found.Add, func() { hived.AddAllocatedPod(bound) })
			held[each.Name] = append(held[each.Name], bound)
			found.Gpus += len(answer.PodBindInfo.LeafCellIsolation)
		}
	}
	for _, name := range given.Ends {
		for _, pod := range held[name] {
			timed(&found.Delete, func() { hived.DeleteAllocatedPod(pod) })
		}
	}
	for _, several := range held {
		for _, pod := range several {
			timed(&found.Reading, func() { read(pod) })
		}
	}
	return found
}

// read does what Schedule, AddAllocatedPod and DeleteAllocatedPod do first.
func read(pod *core.Pod) {
	internal.ExtractPodSchedulingSpec(pod)
	for call := 0; call < 2; call++ {
		internal.ExtractPodSchedulingSpec(pod)
		internal.ExtractPodBindInfo(pod)
	}
}

func load(path string) work {
	var given work
	text, problem := ioutil.ReadFile(path)
	if problem == nil {
		problem = json.Unmarshal(text, &given)
	}
	if problem != nil {
		panic(problem)
	}
	return given
}

func profile(path string) func() {
	file, problem := os.Create(path)
	if problem == nil {
		problem = pprof.StartCPUProfile(file)
	}
	if problem != nil {
		panic(problem)
	}
	return func() {
		pprof.StopCPUProfile()
		file.Close()
	}
}

func main() {
	klog.InitFlags(flag.CommandLine)
	flag.Set("logtostderr", "false")
	flag.Set("v", "2") // The published default.
	flag.Parse()
	klog.SetOutput(ioutil.Discard)

	path := flag.Arg(0)
	hived := algorithm.NewHivedAlgorithm(api.NewConfig(api.InitRawConfig(&path)))
	given := load(flag.Arg(1))
	ready := core.NodeCondition{Type: core.NodeReady, Status: core.ConditionTrue}
	for _, name := range given.Nodes {
		hived.AddNode(&core.Node{
			ObjectMeta: meta.ObjectMeta{Name: name},
			Status:     core.NodeStatus{Conditions: []core.NodeCondition{ready}},
		})
	}
	if flag.NArg() > 2 {
		defer profile(flag.Arg(2))()
	}
	for place, each := range given.Fills {
		found := run(hived, given.Nodes, each)
		if place == 0 {
			continue
		}
		line, _ := json.Marshal(found)
		fmt.Println(string(line))
	}
}
