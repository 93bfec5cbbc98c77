/** Specifications to start from. The digits job is part of the product and trains on real data. */

const DIGITS = `"sh", "-c", "exec python \\"$ALLOT_EXAMPLES/digits/train.py\\" --step-seconds 0.1"`;

export interface Template {
  id: string;
  title: string;
  summary: string;
  text: string;
}

export const TEMPLATES: readonly [Template, ...Template[]] = [
  {
    id: "digits-single",
    title: "Digits, one GPU",
    summary: "Trains a classifier of handwritten digits as one process.",
    text: `# One process on one GPU. About a minute on a V100.
name: digits-single
tasks:
  - name: train
    replicas: 1
    resources:
      gpu: 1
      gpu_model: any
      cpu: 1
      memory: 512MiB
    command: [${DIGITS}]
time_limit: 30m
checkpoint:
  grace_seconds: 10
`,
  },
  {
    id: "digits-gang",
    title: "Digits, gang of four",
    summary: "Four data-parallel workers that start together or not at all; gives way to guaranteed jobs.",
    text: `# Four workers with one GPU each, on any number of nodes. Opportunistic: it may be stopped
# for a guaranteed job at any moment, and then goes on from its checkpoint.
name: digits-gang
guarantee: opportunistic
tasks:
  - name: worker
    replicas: 4
    resources:
      gpu: 1
      gpu_model: [V100, P100]
      cpu: 1
      memory: 512MiB
    command: [${DIGITS}]
time_limit: 30m
checkpoint:
  grace_seconds: 10
`,
  },
  {
    id: "torchrun",
    title: "torchrun, two nodes",
    summary: "Two replicas of four GPUs; torchrun starts a process for each of them.",
    text: `# torchrun starts the command once for each GPU, with RANK, WORLD_SIZE and the rest set.
name: torchrun
launcher: torchrun
tasks:
  - name: worker
    replicas: 2
    resources:
      gpu: 4
      gpu_model: V100
      cpu: 8
      memory: 32GiB
    command: [python, train.py]
time_limit: 12h
checkpoint:
  grace_seconds: 120
`,
  },
];
