// The data that Python sends to the player. The scripts are checked against these types, and so are
// the payloads of real runs from specviz/player (tests/player/test_payload_types.py).

/** The player's data: one run, or several in a race. */
export type Payload = RunPayload | RacePayload;

/** One run, running or finished, and everything shown about it. */
export interface RunPayload {
  run: Run;
  /** The texts of the prompt's tokens and, in a chat, the role before each message. */
  prompt: PromptPart[];
  rounds: SentRounds;
  /** Null if the target alone was not timed. */
  lanes: Lanes | null;
  /** The times that the step costs predict; null if the costs are not known. */
  step_costs: StepSeconds | null;
  summary: Summary;
  charts: Charts;
  /** Whether rounds, or a forecast after the run, may still arrive. */
  growing: boolean;
  tour: Tour;
  /** The run that this one forks, if available. */
  forked?: ForkedText | null;
  /** The parts of a link to a moment of the run. */
  link?: RunLink | null;
  /** The moment to open the run at, as in a link. */
  moment?: Record<string, string> | null;
}

/** Seconds according to the step costs. */
export interface StepSeconds {
  /** A step of the target alone. */
  target: number;
  /** The mean round; null if the costs do not cover such rounds. */
  round: Parts | null;
}

/** The text of a forked run, from the fork on. */
export interface ForkedText {
  /** The run's id in the library. */
  id: string | null;
  /** The number of tokens before these. */
  before: number;
  texts: string[];
  /** The number of tokens of the whole text. */
  total: number;
}

export interface RunLink {
  /** The library has the run under its id. */
  kept: boolean;
  /** The query that repeats the run; null if the controls do not support its settings. */
  settings: string | null;
  /** Only this machine can reach the server. */
  local: boolean;
  /** The number of the last handled request for a moment. */
  heard?: number | null;
  /** The player is in a replay file. */
  file?: boolean;
}

/** Several runs on one clock. */
export interface RacePayload {
  race: SentRace;
  growing: boolean;
  tour: Tour;
}

/** Whether the one-minute tour opens: once per browser, always, or never. */
export type Tour = "ask" | "force" | "never";

export type RunState = "recorded" | "loading" | "queued" | "running" | "stopped" | "done" | "failed";

/** The state of a run, and the settings that explain its verdicts. */
export interface Run {
  /** Identifies the run: rounds with another id begin a new recording. */
  id: string;
  state: RunState;
  /** The state as text. */
  label: string;
  detail: string;
  remedy: string;
  /** All rounds are decoded; the target alone may still be timed. */
  decoded: boolean;
  /** The previous run is still shown. */
  waiting: boolean;
  /** The rule changes the output distribution. */
  lossy: boolean;
  /** The amount a lossy rule adds to the target's probability. */
  epsilon: number;
  /** What decides a candidate's fate: its acceptance probability, one decision for the block, the target's own token, or a threshold. */
  deciding: "odds" | "together" | "equal" | "threshold";
  /** Whether accepted / tested is meaningful. */
  has_alpha: boolean;
  /** The distribution that replaces a rejected token. */
  residual: Residual;
  greedy: boolean;
  /** Null if an engine does not report it. */
  gamma: number | null;
  temperature: number;
  /** Whether the run can be forked. */
  forkable: boolean;
  /** Whether the user cannot make runs here, as in the demo. */
  recorded_only?: boolean;
  /** The places where the run was forked from other runs. */
  forks: Fork[];
  /** The serving engine that answered; null for a run of our own engine. */
  engine: Engine | null;
  /** The head that drafts, if any. */
  head?: Head | null;
}

/** A drafting head. */
export interface Head {
  /** The target's hidden states that it reads, such as "the inputs of layers 2, 6 and 9". */
  reads: string;
  /** Whether later candidates of a round continue from the head's own state. */
  recycles: boolean;
}

/** A serving engine, which reports less than our own; the rest is unknown. */
export interface Engine {
  /** The engine's name, with its version if reported. */
  name: string;
  /** What the engine does not report, in a sentence. */
  silent: string;
  /** What the pieces of its answer are, in a sentence. */
  grounds: string;
  /** False if the engine decodes the target alone; null if not reported. */
  speculates: boolean | null;
  /** What a row of the list is, since the engine may not report rounds. */
  unit: "round" | "piece";
  /** What can be counted, since the engine may not report tokens. */
  counts: "token" | "piece";
}

/** A changed verdict. */
export interface Fork {
  round: number;
  place: number;
  /** The draw by the seed, which the fork replaced; null if a token was changed. */
  draw: number | null;
  /** The target's likeliest token, if that was changed. */
  likeliest: string | null;
}

export type Residual = "leftover" | "target" | "draft";

/** Rounds from number `from` on. A round is sent once; `total` shows whether one is missing. */
export interface SentRounds {
  from: number;
  items: Round[];
  total: number;
  /**
  * A new edition: the engine has reported more about the sent rounds, so they are sent
   * again.
   */
  edition?: string;
}

/** One draft phase, one pass of the target, and the verdicts. */
export interface Round {
  candidates: AnyCandidate[];
  /** The token that the target adds; null if the round was cut before it. */
  extra: AnyExtra | null;
  /**
  * From an engine: the text of a round whose candidates it does not identify. It is shown
   * after the candidates.
   */
  unreported?: UnreportedPiece[];
  /** Why the round ended early; null for a whole round. */
  cut: "eos" | "stop" | "length" | "context" | null;
  times: Times;
  /** The token at which a head read the target's newest hidden state. */
  read_at?: string;
  /**
   * The round's number, counted from the first round of the conversation or, without one, of the run.
   * From an engine, null for a step without drafts, which is not a round, such as the pass over the prompt.
   */
  number?: number | null;
  /** From an engine: seconds from the request until the round's tokens arrived. */
  at?: number;
  /** From an engine: the round arrived in one piece with the previous one. */
  merged?: boolean;
}

/** Seconds, divided into phases or not. */
export type Times = Parts | Undivided;

/** Seconds that an engine does not divide into phases. */
export interface Undivided {
  whole: number;
}

/** Seconds by phase. */
export interface Parts {
  draft: number;
  verify: number;
  other: number;
}

export type Verdict = "accepted" | "rejected" | "cut" | "discarded";

export type AnyCandidate = Candidate | ReportedCandidate;
export type AnyExtra = Extra | ReportedExtra;

/** A candidate for which an engine reports only the verdict. */
export interface ReportedCandidate {
  /** Null if the engine does not report the token. */
  text: string | null;
  verdict: Verdict;
  /** Its log-probability, if the engine reported it. */
  logprob: number | null;
}

/** The last token of an engine's round. */
export interface ReportedExtra {
  text: string;
  kind: "recovered" | "bonus";
  logprob: number | null;
}

/** Text that arrived in one piece, of one or more tokens; null if their number is not reported. */
export interface UnreportedPiece {
  text: string;
  tokens: number | null;
  logprob: number | null;
}

/** A drafted token. */
export interface Candidate {
  text: string;
  /**
  * What it adds to the text, if that differs from its own text. If a character is split over tokens,
   * their `text` shows the bytes (⟨c3⟩), and the last one adds the whole character.
   */
  adds?: string;
  verdict: Verdict;
  /** Its probability under the draft. */
  draft: number;
  /** Its probability under the target. */
  target: number;
  /** The random draw that decided. */
  uniform: number;
  /** The acceptance probability before the token was drawn. */
  expected: number;
  /** Null if the run was made without recording. */
  insight: Insight | null;
  /** For parallel drafts and trees: the parent candidate, -1 for the text. */
  parent?: number;
  /** Block verification: the joint ratio up to here, and the probability that the draw is compared with. */
  joint?: number;
  coin?: number;
  /** Its exponential noise, if both models share the noise. */
  noise?: number;
  /** The target's own token, if that decides and is known. */
  rival?: Rival;
}

/** The target's own token at a candidate's position. */
export interface Rival {
  text: string;
  target: number;
  noise?: number;
  /** The relative margin to the second token. */
  margin?: number;
}

/** The token that a round adds after its candidates. */
export interface Extra {
  text: string;
  /** As for a candidate. */
  adds?: string;
  kind: "recovered" | "bonus";
  target: number;
  draft: number | null;
  uniform: number;
  /** The head's vocabulary lacks the token. */
  outside?: boolean;
}

/** Both models' distributions at a position, at temperature 1. */
export interface Insight {
  draft: number;
  target: number;
  draft_entropy: number;
  target_entropy: number;
  draft_top: Alternative[];
  target_top: Alternative[];
  residual_top: Alternative[];
}

export type Alternative = [text: string, probability: number];

/** Both lanes of one run as timed. */
export interface Lanes {
  /** The seconds of each round. */
  speculative: Times[];
  /** The seconds of each token of the target alone. */
  target: number[];
  /** A note, if only the mean rate of the target alone over other answers is known. */
  pace?: string;
  /** Whether the interval of the speedup includes 1. */
  open: boolean;
}

/** The head of the player, and the figures below it. */
export interface Summary {
  /** The verdict in a few words, or the state of the run. */
  headline: string;
  /** The interval of the headline's speedup, or a note that there is none; empty if it is in the headline. */
  span: string;
  /** The simulated sizes, and the speedup at the pair's own size if known; empty without bodies. */
  sizes: string;
  /** The bar picture; null while neither the speedup nor the step costs are known. */
  round_cost: RoundCost | null;
  /** The verdict as a sentence; empty while there is none. */
  sentence: string;
  because: string;
  /** The costs and meaning of bodies; empty for a run without bodies. */
  bodies: string;
  lamp: string | null;
  figures: Figure[];
  /** The figures under "More figures". */
  finer: Figure[];
}

/** What a round costs and gives, in steps of the target alone. */
export interface RoundCost {
  gamma: number;
  drafting: number;
  verification: number;
  /** The rest of a measured round. */
  other: number;
  tokens: number;
  /** Whether the cost is predicted, for other settings than the run's. */
  predicted: boolean;
  /** The simulated size for which the cost is predicted, in words; empty for the run's own. */
  size: string;
  caption: string;
}

export interface Figure {
  id: string;
  label: string;
  /** The number; null if there is none. */
  value: number | null;
  /** The number as displayed. */
  shown: string;
  note: string;
  help: string;
}

export interface Charts {
  throughput: Throughput | null;
  /** Null until the speedup is measured and step costs or a forecast predict it. */
  agreement: Agreement | null;
  /** The α below which the pair is slower than the target alone; null if unknown. */
  break_even: number | null;
  /** Null before the first round is finished, and if step costs were not measured. */
  roofline: Roofline | null;
  /** The charts that cannot be drawn for an engine's answer, and why. */
  left_out?: LeftOut | null;
}

export interface Agreement {
  estimates: Estimate[];
  words: string;
}

/** A speedup with its 95 % interval. */
export interface Estimate {
  source: "forecast" | "step costs" | "measured";
  value: number;
  low: number;
  high: number;
}

export interface LeftOut {
  charts: string[];
  why: string;
}

/** Tokens per second over γ: curves from step costs, and runs as points. */
export interface Throughput {
  gammas: number[];
  ideal: number[];
  forecast: number[] | null;
  /** Whether the curves are based on this run and not on other texts. */
  extrapolated: boolean;
  /** Whether the curves are for previous settings. */
  stale: boolean;
  /** The target alone, from its step costs. */
  target: number;
  measured_target: number | null;
  /** Why the step costs may be wrong, in sentences. */
  doubt: string | null;
  chosen: ChosenGamma | null;
  points: RunPoint[];
}

/** The time of passes, and the time to read their bytes. */
export interface Roofline {
  /** The target's passes over 1, 2, ... tokens. */
  passes: MeasuredPass[];
  /** A step of the draft; null if no model drafts. */
  draft: MeasuredPass | null;
  /** The numbers of tokens whose pass was not timed. */
  interpolated: number[];
  /** The run's γ; null if the step costs do not cover its rounds. */
  gamma: number | null;
  /** The γ up to which verification is free; 0 for none. */
  free: number;
  /** The time, in target steps, up to which a verification is called free. */
  limit: number;
  /** Sentences on the shares of the bandwidth and the free γ. */
  words: string;
}

export interface MeasuredPass {
  seconds: number;
  /** Half the 95 % interval, relative to the seconds; null if unknown. */
  error: number | null;
  /** Seconds to read the same number of bytes in a plain sum; null if not known. */
  floor: number | null;
}

/** The γ of the next run, and its rate on the curves, if they cover it. */
export interface ChosenGamma {
  gamma: number;
  rate: number | null;
}

/** A run as a point in the throughput chart. */
export interface RunPoint {
  gamma: number;
  rate: number;
  label: string;
  current: boolean;
  /** The run was stopped or failed. */
  partial: boolean;
  /** The run had too few rounds for a reliable rate. */
  few: boolean;
}

export interface SentRace {
  /** Identifies the race: if sent again with the same id, the race continues to play. */
  id: string;
  /** One to four. */
  lanes: SentLane[];
  targets: SentTarget[];
  /** The recordings do not decide which lane is fastest. */
  open: boolean;
  /** The lane that is shown first. */
  chosen: number;
  /** Why no lane is called the fastest, if the lanes were timed differently. */
  unlike?: string;
}

/** A lane of a race, with the data to show its run by itself. */
export interface SentLane {
  label: string;
  /** The seconds of each round. */
  parts: Times[];
  stage: RunPayload;
}

/** The target alone, timed along the text of one lane. */
export interface SentTarget {
  name: string;
  label: string;
  along: string;
  /** The seconds of each token. */
  seconds: number[];
}

/** The contents of a replay file besides the player. */
export interface ReplayData {
  about: About;
  player: Payload;
}

/** The page around the player in a replay file. */
export interface About {
  title: string;
  /** Empty for a single run. */
  verdict: string;
  facts: string[];
  /** Rows of cells, header first; empty for a single run. */
  table: string[][];
}

/** The mark of a message: its role, or "template" for the template's own text. */
export interface RoleMark {
  role: string;
  text?: string;
}

export type PromptPart = string | RoleMark;
