/** A backend starts a run with a run spec. Unknown fields are refused with their path. */
import { z } from 'zod';
import { SIGNING } from '../crypto.ts';
import { Identifier, JsonObject, Name, Sha256Hex } from './json.ts';
import { Policy, ToolName } from './policy.ts';

/** Most that a spec may ask for; further calls are denied whatever policy says. */
export const MOST_CALLS_PER_TURN = 64;
/** Bytes of one call's arguments. */
export const MOST_ARGUMENT_BYTES = 262_144;
/** The spec and all else that a run carries must stay below the 2 MiB that continue-as-new can hold. */
export const MOST_SPEC_BYTES = 262_144;

const limit = {
  turns: z.int().min(1).max(10_000),
  calls: z.int().min(1).max(100_000),
  callsPerTurn: z.int().min(1).max(MOST_CALLS_PER_TURN),
  /** Canonical JSON of one call's arguments. */
  argumentBytes: z.int().min(256).max(MOST_ARGUMENT_BYTES),
  /** Canonical JSON of all arguments of a turn. */
  argumentBytesPerTurn: z.int().min(256).max(524_288),
  /** Bytes of one result that the model sees; a larger result becomes a preview and a reference. */
  resultBytes: z.int().min(256).max(262_144),
  /** Bytes of all results of a turn that the model sees, in equal shares. The least gives 64 calls 256 bytes each. */
  resultBytesPerTurn: z.int().min(16_384).max(1_310_720),
  /** Input and output tokens as the provider reports them; estimated where it reports none. */
  tokens: z.int().min(1),
  /** Most that model steps may cost: a decimal as text, since sums of fractions are inexact. */
  spend: z
    .string()
    .regex(/^(?=.*[1-9])\d{1,9}(\.\d{1,6})?$/, 'must be a decimal number above 0 as text, such as "2.50"'),
  wallClockSeconds: z.int().min(1).max(31_536_000),
  /** Number of turns after which the run continues as new at the next safe point. */
  turnsPerExecution: z.int().min(1).max(500),
  /** Time limit of one tool call, from send to answer. */
  callTimeoutSeconds: z.int().min(1).max(3_600),
};

/** Limits of one run. Reaching one is a named outcome of the run, never a failing workflow task. */
export const Limits = z.strictObject({
  turns: limit.turns.default(100),
  calls: limit.calls.default(1_000),
  callsPerTurn: limit.callsPerTurn.default(16),
  argumentBytes: limit.argumentBytes.default(65_536),
  argumentBytesPerTurn: limit.argumentBytesPerTurn.default(262_144),
  resultBytes: limit.resultBytes.default(65_536),
  /** No default, so that a spec without the field keeps its hash. `prepareRun` fills it in. */
  resultBytesPerTurn: limit.resultBytesPerTurn.optional(),
  tokens: limit.tokens.default(5_000_000),
  spend: limit.spend.optional(),
  wallClockSeconds: limit.wallClockSeconds.default(2_592_000),
  turnsPerExecution: limit.turnsPerExecution.default(40),
  callTimeoutSeconds: limit.callTimeoutSeconds.default(120),
});
export type Limits = z.infer<typeof Limits>;

/** Ceilings that an operator may set; an unstated one is bounded by its range only. */
export const Ceilings = z.strictObject(limit).partial();

/** The person or service that started the run. In trust mode `temporal` the starter is believed. */
export const Initiator = z.strictObject({
  id: Identifier,
  groups: z.array(Identifier).max(100).default([]),
  tenant: Identifier.default('default'),
});
export type Initiator = z.infer<typeof Initiator>;

export const Agent = z.strictObject({
  name: Name,
  model: Name,
  instructions: z.string().max(131_072).default(''),
  /** JSON Schema of the final answer; enforced with one repair turn. */
  output: JsonObject.optional(),
});

/** Who calls a server: this service, the provider of the run's model, or the provider if it can. */
export const Execute = z.enum(['local', 'hosted', 'auto']);
export type Execute = z.infer<typeof Execute>;

/** A configured server by name, or another server by URL if egress rules allow it. */
export const ServerRef = z.strictObject({
  name: Name,
  url: z
    .url({ protocol: /^https?$/ })
    .max(2_048)
    .optional(),
  /** Original tool names; absent means every tool that policy does not deny. */
  allowedTools: z.array(ToolName).max(1_000).optional(),
  /** A choice where the configuration says `auto`. Absent: as configured. */
  execute: Execute.optional(),
});
export type ServerRef = z.infer<typeof ServerRef>;

/** Flattened JWE (RFC 7516 §7.2.2) whose associated data binds it to one run and one server. */
export const SealedGrant = z.strictObject({
  protected: z.string(),
  encrypted_key: z.string(),
  iv: z.string(),
  ciphertext: z.string(),
  tag: z.string(),
  aad: z.string(),
});
export type SealedGrant = z.infer<typeof SealedGrant>;

export const Grant = z.union([
  z.strictObject({ server: Name, jwe: SealedGrant }),
  z.strictObject({ server: Name, ref: Identifier }),
]);
export type Grant = z.infer<typeof Grant>;

export const UserMessage = z.strictObject({ role: z.literal('user'), content: z.string().min(1).max(131_072) });

/** Temporal's priority: 1 is served first, 5 last. */
export const Priority = z.int().min(1).max(5);

/** When an approved call leaves: at once, or only while its client is there to take the outcome. */
export const Dispatch = z.enum(['on-approval', 'on-return']);
export type Dispatch = z.infer<typeof Dispatch>;

export const RunSpec = z.strictObject({
  agent: Agent,
  input: z.union([z.string().min(1).max(131_072), z.array(UserMessage).min(1).max(100)]),
  initiator: Initiator,
  servers: z.array(ServerRef).max(32).default([]),
  grants: z.array(Grant).max(32).default([]),
  policy: Policy.optional(),
  limits: Limits.prefault({}),
  /** Place among waiting work, limited by the operator's `fairness`. */
  priority: Priority.optional(),
  /** Absent: `on-approval`. `on-return` is for calls of MCP clients (docs/adr/0078). */
  dispatch: Dispatch.optional(),
  /** Compact JWS over the rest, in trust mode `signed` (docs/guide/signing.md). */
  signature: z.string().max(SIGNING.longest).optional(),
});
/** A spec with every default applied. */
export type RunSpec = z.infer<typeof RunSpec>;
/** A spec as a caller may write it. */
export type RunSpecInput = z.input<typeof RunSpec>;

/** A single call, for a backend with a loop of its own (docs/adr/0074): a run spec whose model is the caller. */
export const CallSpec = RunSpec.pick({ initiator: true, grants: true, policy: true, priority: true, signature: true })
  .extend({
    /** A server by the name that configuration or catalog knows, or by name and URL if egress rules allow it. */
    server: z.union([Name, ServerRef.omit({ allowedTools: true, execute: true })]),
    /** Original name of the tool. */
    tool: ToolName,
    arguments: JsonObject.default({}),
    limits: Limits.pick({
      resultBytes: true,
      wallClockSeconds: true,
      callTimeoutSeconds: true,
    })
      .partial()
      .prefault({}),
  })
  .strict();
export type CallSpec = z.infer<typeof CallSpec>;
export type CallSpecInput = z.input<typeof CallSpec>;

/** Associated data of a sealed grant; every field is compared when it is opened. */
export const GrantBinding = z.strictObject({
  namespace: z.string(),
  workflowId: z.string(),
  serverUrl: z.string(),
  specHash: Sha256Hex,
  /** Seconds since the epoch (RFC 7519 NumericDate). */
  exp: z.int(),
});
export type GrantBinding = z.infer<typeof GrantBinding>;

const turn = {
  priority: Priority,
  /** Highest priority that a run gets, even if it asks for a higher one. */
  highest: Priority,
};

/** The order in which Temporal serves waiting work (docs/operations/limits.md). */
export const Fairness = z.strictObject({
  priority: turn.priority.default(3),
  highest: turn.highest.default(3),
  /** A tenant of weight 2 gets twice what one of weight 1 gets, as long as both wait. */
  tenants: z
    .record(Identifier, z.strictObject({ weight: z.number().min(0.001).max(1_000).default(1), ...turn }).partial())
    .default({}),
});
export type Fairness = z.infer<typeof Fairness>;
