// The data that Python sends to the player. The scripts are checked against these types, and so is
// what specviz/player makes of real runs (tests/player/test_payload_types.py).

/** What the player is given: one run, or several that race. */
export type Payload = RunPayload | RacePayload;

/** One run, so far or to its end, and all that is shown of it. */
export interface RunPayload {
  run: Run;
  /** The texts of the prompt's tokens. */
  prompt: string[];
  rounds: SentRounds;
  /** Null where the target alone was not timed. */
  lanes: Lanes | null;
  /** Seconds of a step of the target alone by step costs; null where they were not measured. */
  target_step: number | null;
  summary: Summary;
  charts: Charts;
  /** Tokens that stand for the end of a text. */
  end_texts?: string[];
  /** Whether rounds may still come, or a forecast after the run. */
  growing: boolean;
  tour: Tour;
  /** The run that this one is a fork of, where it is at hand. */
  forked?: ForkedText | null;
  /** What a link to a moment of the run is made of. */
  link?: RunLink | null;
  /** Where to open the run, as a link says it. */
  moment?: Record<string, string> | null;
}

/** The text of a run that was forked, from the place of the fork on. */
export interface ForkedText {
  /** Under which it is kept. */
  id: string | null;
  /** Tokens of its text before these. */
  before: number;
  texts: string[];
  /** Tokens of its whole text. */
  total: number;
}

export interface RunLink {
  /** The library has the run under its id. */
  kept: boolean;
  /** The query that makes the same run again; null where the controls cannot show it. */
  settings: string | null;
  /** The server listens on this machine alone. */
  local: boolean;
  /** The number of the last wish for a moment that the page has heeded. */
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

/** Whether the tour of the first minute opens: once in each browser, always, or not at all. */
export type Tour = "ask" | "force" | "never";

export type RunState = "recorded" | "loading" | "queued" | "running" | "stopped" | "done" | "failed";

/** How a run stands, and the settings that explain its verdicts. */
export interface Run {
  /** Names the run: rounds that come with another name begin a new recording. */
  id: string;
  state: RunState;
  /** The state in words. */
  label: string;
  detail: string;
  remedy: string;
  /** The last round has been made; the target alone may still be timed. */
  decoded: boolean;
  /** The run before is still shown. */
  waiting: boolean;
  /** The rule changes what the target would say. */
  lossy: boolean;
  /** What a lossy rule adds to the target's probability. */
  epsilon: number;
  /** What a candidate's fate hangs on: its odds, one decision on all, the target's own word, or a threshold. */
  deciding: "odds" | "together" | "equal" | "threshold";
  /** Whether accepted over tested means something. */
  has_alpha: boolean;
  /** From which distribution a rejected token is replaced. */
  residual: Residual;
  greedy: boolean;
  /** Null where an engine does not tell it. */
  gamma: number | null;
  temperature: number;
  /** A fork of it can be asked for. */
  forkable: boolean;
  /** Where it left other runs. */
  forks: Fork[];
  /** The serving engine whose answer it is; null for a run of our own engine. */
  engine: Engine | null;
}

/** A serving engine: it tells less than our own does, and the rest stays unknown. */
export interface Engine {
  /** With its version, where it told that. */
  name: string;
  /** What it keeps to itself, in a sentence. */
  silent: string;
  /** What its pieces are, in a sentence. */
  grounds: string;
  /** False where it decodes the target alone; null where it does not say. */
  speculates: boolean | null;
  /** What a row of the list is: it may tell no rounds. */
  unit: "round" | "piece";
  /** What can be counted: it may tell no tokens. */
  counts: "token" | "piece";
}

/** A verdict that was overruled. */
export interface Fork {
  round: number;
  place: number;
  /** The seed's draw; null where a token was overruled. */
  draw: number | null;
  /** The target's likeliest token, where that was overruled. */
  likeliest: string | null;
}

export type Residual = "leftover" | "target" | "draft";

/** Rounds from number `from` on. A round is sent once; `total` tells whether one is missing. */
export interface SentRounds {
  from: number;
  items: Round[];
  total: number;
  /**
   * Another one than before: the engine has told more of the rounds that were sent, so they are sent
   * again.
   */
  edition?: string;
}

/** One draft phase, one pass of the target, and the verdicts. */
export interface Round {
  candidates: AnyCandidate[];
  /** The token that the target adds; null in a round that was cut before it. */
  extra: AnyExtra | null;
  /**
   * Of an engine: what the round gave, where it does not tell which of it was a candidate. It lands
   * after the candidates.
   */
  untold?: UntoldPiece[];
  /** Why the round ended early; null for a whole round. */
  cut: "eos" | "stop" | "length" | "context" | null;
  times: Times;
  /** Of an engine: seconds from the request until its tokens came. */
  at?: number;
  /** Of an engine: it came in one piece with the round before. */
  merged?: boolean;
}

/** Seconds, divided or not. */
export type Times = Parts | Undivided;

/** Seconds of which an engine does not tell what they were spent on. */
export interface Undivided {
  whole: number;
}

/** Seconds by what they were spent on. */
export interface Parts {
  draft: number;
  verify: number;
  other: number;
}

export type Verdict = "accepted" | "rejected" | "cut" | "discarded";

export type AnyCandidate = Candidate | ToldCandidate;
export type AnyExtra = Extra | ToldExtra;

/** A candidate of which an engine tells its fate and no more. */
export interface ToldCandidate {
  /** Null where it does not tell the token. */
  text: string | null;
  verdict: Verdict;
  /** The logarithm of its probability, where the engine told that. */
  logprob: number | null;
}

/** The last token of an engine's round. */
export interface ToldExtra {
  text: string;
  kind: "recovered" | "bonus";
  logprob: number | null;
}

/** Text that came in one piece, of one or more tokens; null where it does not tell how many. */
export interface UntoldPiece {
  text: string;
  tokens: number | null;
  logprob: number | null;
}

/** A drafted token. */
export interface Candidate {
  text: string;
  /**
   * What it adds to the text, where that is not its own text. Where a character is split over tokens,
   * their `text` shows the bytes (⟨c3⟩), and the last one adds the whole character.
   */
  adds?: string;
  verdict: Verdict;
  /** The probability that the draft gave it. */
  draft: number;
  /** The probability that the target gave it. */
  target: number;
  /** The random number that decided. */
  uniform: number;
  /** The chance of acceptance before the token was drawn. */
  expected: number;
  /** Null where the run was made without the record. */
  insight: Insight | null;
  /** Of several drafts and trees: the candidate that it hangs on, -1 for the text. */
  parent?: number;
  /** Judged together: the joint odds up to here, and what the uniform is held against. */
  joint?: number;
  coin?: number;
  /** Its exponential, where both models share the noise. */
  noise?: number;
  /** What the target said itself, where that decides and is known. */
  rival?: Rival;
}

/** The token that the target said by itself in a candidate's place. */
export interface Rival {
  text: string;
  target: number;
  noise?: number;
  /** By how much its second would have come later, as a share. */
  margin?: number;
}

/** The token that a round adds after its candidates. */
export interface Extra {
  text: string;
  /** As in a candidate. */
  adds?: string;
  kind: "recovered" | "bonus";
  target: number;
  draft: number | null;
  uniform: number;
}

/** What both models thought at a position, at temperature 1. */
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

/** Both lanes of one run as they were timed. */
export interface Lanes {
  /** The seconds of each round. */
  speculative: Times[];
  /** The seconds of each token of the target alone. */
  target: number[];
  /** Only the pace of the target alone is known, in the mean of other answers: what is said of it. */
  pace?: string;
  /** The interval of the speedup leaves open which is faster. */
  open: boolean;
}

/** What stands above the player. */
export interface Summary {
  sentence: string;
  because: string;
  /** What bodies cost and mean; empty for a run without. */
  bodies: string;
  lamp: string | null;
  figures: Figure[];
  /** Those that are folded away. */
  finer: Figure[];
}

export interface Figure {
  id: string;
  label: string;
  /** The bare number; null where there is none. */
  value: number | null;
  /** The number as it is written. */
  shown: string;
  note: string;
  help: string;
}

export interface Charts {
  throughput: Throughput | null;
  /** Null before the first round is over, and where step costs were not measured. */
  roofline: Roofline | null;
  /** The names of charts that cannot be drawn of an engine's answer, and why. */
  left_out?: LeftOut | null;
}

export interface LeftOut {
  charts: string[];
  why: string;
}

/** Tokens a second over γ: curves that follow from step costs, and runs as points. */
export interface Throughput {
  gammas: number[];
  ideal: number[];
  forecast: number[] | null;
  /** The curves follow from this run, and not from other texts. */
  extrapolated: boolean;
  /** They were made for other settings than are chosen now. */
  stale: boolean;
  /** The target alone by its step costs. */
  target: number;
  measured_target: number | null;
  /** Why the step costs may be wrong, in sentences. */
  doubt: string | null;
  chosen: ChosenGamma | null;
  points: RunPoint[];
}

/** What passes take beside the time that reading their bytes takes. */
export interface Roofline {
  /** The target's, over 1, 2, ... tokens. */
  passes: MeasuredPass[];
  /** A step of the draft; null where no model drafts. */
  draft: MeasuredPass | null;
  /** The numbers of tokens whose pass was not timed. */
  interpolated: number[];
  /** Of the run; null where the step costs are not of its rounds. */
  gamma: number | null;
  /** The γ up to which verification is free; 0 for none. */
  free: number;
  /** Steps of the target that a verification takes at most to be called free. */
  limit: number;
  /** The shares of the bandwidth and the free γ, in sentences. */
  words: string;
}

export interface MeasuredPass {
  seconds: number;
  /** Half the 95 % interval as a share of the seconds; null where nobody can tell. */
  error: number | null;
  /** Seconds that a bare sum takes to read as many bytes; null where either is not known. */
  floor: number | null;
}

/** The γ of the next run, and its rate by the curves, if they reach that far. */
export interface ChosenGamma {
  gamma: number;
  rate: number | null;
}

/** A run as a point on the chart of throughput. */
export interface RunPoint {
  gamma: number;
  rate: number;
  label: string;
  current: boolean;
  /** The run was broken off. */
  partial: boolean;
  /** It had too few rounds to say much. */
  few: boolean;
}

export interface SentRace {
  /** Names the race: sent again with the same name, it goes on playing. */
  id: string;
  /** One to four. */
  lanes: SentLane[];
  targets: SentTarget[];
  /** These recordings cannot tell who is fastest. */
  open: boolean;
  /** The lane that is shown at first. */
  chosen: number;
  /** Why no lane is called the fastest, where they were not timed alike. */
  unlike?: string;
}

/** A lane of a race, with the data to show its run alone. */
export interface SentLane {
  label: string;
  /** The seconds of each round. */
  parts: Times[];
  stage: RunPayload;
}

/** The target alone, timed on the words of one lane. */
export interface SentTarget {
  name: string;
  label: string;
  along: string;
  /** The seconds of each token. */
  seconds: number[];
}

/** What a replay file holds besides the player. */
export interface ReplayData {
  about: About;
  player: Payload;
}

/** What stands around the player in a replay file. */
export interface About {
  title: string;
  /** Empty for a single run. */
  verdict: string;
  facts: string[];
  /** Rows of cells, the head first; empty for a single run. */
  table: string[][];
}
