/** Configures the gateway and the codec server: where they listen, whose tokens they believe, and who may do what. */
import { z } from 'zod';
import { SlackMember } from './channels.ts';
import { CodecKey, HttpUrl, Identifier, Name, people, Secret, SocketAddress } from './json.ts';
import { Dispatch, RunSpec } from './run-spec.ts';

/** Name of a claim; a dot leads into an object: `realm_access.roles`. */
const Claim = z.string().min(1).max(200);

/** Signature algorithms that may be believed. None of them is symmetric. */
const Algorithm = z.enum(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA']);

/** An OpenID provider whose access tokens say who is asking (RFC 9068, RFC 7519). */
export const OidcConfig = z.strictObject({
  /** Exactly as in the claim `iss`. */
  issuer: HttpUrl,
  /** The claim `aud` must name it. */
  audience: z.string().min(1).max(1_000),
  /** Default: the provider's own metadata say where its keys are. */
  jwksUri: HttpUrl.optional(),
  algorithms: z.array(Algorithm).min(1).default(['RS256', 'PS256', 'ES256', 'EdDSA']),
  claims: z
    .strictObject({
      /** The id by which policies name a person. */
      id: Claim.default('sub'),
      groups: Claim.default('groups'),
      /** Without this claim in a token, its owner belongs to `tenant`. */
      tenant: Claim.default('tenant'),
    })
    .prefault({}),
  /** Tenant of tokens that name none; absent: such tokens are refused. */
  tenant: Identifier.optional(),
});
export type OidcConfig = z.infer<typeof OidcConfig>;

/** Browsers keep cookies with `Secure` for trustworthy origins alone (Secure Contexts §3.1). */
const TRUSTWORTHY =
  /^(?:https:|http:\/\/(?:localhost|[\w.-]+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?(?:[/?#]|$))/i;

/** Sign-in of people by browser: authorization code with PKCE (RFC 6749 §4.1, RFC 7636) at the provider of `oidc`. */
export const SignInConfig = z.strictObject({
  /** The URL under which browsers reach the gateway; its `/auth/callback` is registered at the provider. */
  publicUrl: HttpUrl.refine(
    (url) => TRUSTWORTHY.test(url),
    'must be https, or of this machine, or browsers keep no session',
  ),
  clientId: z.string().min(1).max(200),
  clientSecret: Secret.optional(),
  scopes: z
    .array(z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,200}$/, 'must be a scope'))
    .max(20)
    .default(['openid', 'profile', 'email']),
  /** Seal sessions, the same in all gateways; absent: a random one, and sessions end with the process. */
  keys: z.array(CodecKey).max(10).default([]),
  hours: z.int().min(1).max(24).default(8),
});
export type SignInConfig = z.infer<typeof SignInConfig>;

/** In whose name somebody acts who shows no token of the provider. */
const person = {
  /** The id by which tokens name the person (`oidc.claims.id`). */
  id: Identifier,
  groups: z.array(Identifier).max(100).default([]),
  /** Absent: `oidc.tenant`. */
  tenant: Identifier.optional(),
};

/** Buttons in messages of Slack (`notify.channels.NAME.buttons`); the app's request URL is `/v1/slack/actions`. */
export const SlackConfig = z.strictObject({
  /** With it Slack signs what it sends. Whoever has it decides as everybody in `people`. */
  signingSecret: Secret,
  /** Id of the workspace. Members of others, as shared channels have them, are refused. */
  team: z.string().regex(/^T[A-Z0-9]{2,20}$/, 'must be the id of a workspace, such as T024BE7LD'),
  /** Member id → person: Slack says who pressed a button, and this who that is. Whoever is not named is refused. */
  people: z.record(SlackMember, z.strictObject(person)).default({}),
  /** Words for the person who pressed go to this origin, and to no other. */
  responseUrl: HttpUrl.default('https://hooks.slack.com/'),
});
export type SlackConfig = z.infer<typeof SlackConfig>;
/** Proxies before a server: of these alone it believes who asked them (`X-Forwarded-For`), to count requests by. */
const Proxies = z
  .array(z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()]))
  .max(20)
  .default([]);

/** An agent that people start in the pages: a run spec without its input and its initiator. */
export const AgentOffer = z.strictObject({
  title: z.string().min(1).max(100),
  /** What it does, and what to write to it. */
  description: z.string().max(2_000).optional(),
  /** Grants are of one person and one run, so none stand here. */
  spec: RunSpec.omit({ input: true, initiator: true, grants: true, signature: true, dispatch: true }),
});

/** A client that has no token of the provider: a script, or a program that only takes a fixed header. */
const GateKey = z.strictObject({
  /** Name of the client: equal calls of one client are one call while they wait. */
  client: Name,
  /** The bearer token itself; at least 32 characters that nobody guesses. */
  secret: z
    .string()
    .min(32)
    .max(1_000)
    .regex(/^[A-Za-z0-9_.~+/-]+=*$/, 'must be of characters that a bearer token has (RFC 6750 §2.1)'),
  ...person,
});

/** The gate as an MCP server, at `/mcp`: agents elsewhere call tools of catalogs by it (docs/guide/gate.md). */
export const GateConfig = z.strictObject({
  /** Servers that are offered; absent: every server with a catalog. */
  servers: z.array(Name).max(100).optional(),
  /** The URL under which clients reach the gateway; default: `signIn.publicUrl`. */
  publicUrl: HttpUrl.optional(),
  /** Audience that a client's token must name; default: the URL of `/mcp` (RFC 8707). Never `oidc.audience`. */
  audience: z.string().min(1).max(1_000).optional(),
  /** Longest time for which a call is held for its outcome. MCP clients give up after 60 s by default. */
  holdSeconds: z.int().min(1).max(3_600).default(50),
  /** When an approved call leaves: at once, or only once its client is back, or still there. */
  dispatch: Dispatch.default('on-approval'),
  /** Time for which an outcome is kept for its client, from its run's longest end on, within Temporal's retention. */
  keepSeconds: z.int().min(60).max(31_536_000).default(604_800),
  keys: z.array(GateKey).max(100).default([]),
});
export type GateConfig = z.infer<typeof GateConfig>;

export const GatewayConfig = z.strictObject({
  /** The address to listen on; 0.0.0.0 means every address of the machine. */
  host: z.string().min(1).default('127.0.0.1'),
  port: z.int().min(0).max(65_535).default(8235),
  proxies: Proxies,
  oidc: OidcConfig.optional(),
  signIn: SignInConfig.optional(),
  slack: SlackConfig.optional(),
  gate: GateConfig.optional(),
  /** For development: everybody who reaches the port may say who they are. Only on a loopback address. */
  development: z.literal(true).optional(),
  /** Rights beyond deciding, each in the person's own tenant. Nobody is named by default. */
  may: z
    .strictObject({
      /** Start runs, in their own name. */
      start: z.strictObject(people).prefault({}),
      read: z.strictObject(people).prefault({}),
      /** See every run, write to it and stop it. */
      administer: z.strictObject(people).prefault({}),
    })
    .prefault({}),
  /** Agents that people with `may.start` may start in the pages, by name. */
  agents: z.record(Name, AgentOffer).default({}),
  /** Address of Temporal UI with its namespace, for links from the pages. */
  temporalUi: HttpUrl.optional(),
  /**
   * In trust mode `signed`: the file of the private key that signs for people (`countersign keys new --service`),
   * relative to the configuration file. It speaks for the issuer, the tenants and the groups that it states.
   */
  signing: z.strictObject({ keyFile: z.string().min(1) }).optional(),
  metrics: z
    .strictObject({
      /** Address at which Prometheus scrapes the gateway; nobody signs in there, so keep it on an inner address. */
      prometheus: SocketAddress,
      /** Groups that have a count of open requests of their own; all others are counted together. */
      groups: z.array(Identifier).max(50).default([]),
    })
    .optional(),
  limits: z
    .strictObject({
      bodyBytes: z.int().min(1_024).max(4_194_304).default(1_048_576),
      /** Counted for each person; for each address where nobody has signed in. */
      requestsPerMinute: z.int().min(1).max(1_000_000).default(600),
      /** A request must arrive whole in this time. */
      requestSeconds: z.int().min(1).max(600).default(30),
      connections: z.int().min(1).max(100_000).default(2_000),
      /** Event streams of all people. */
      streams: z.int().min(1).max(100_000).default(1_000),
      streamsPerPerson: z.int().min(1).max(1_000).default(20),
      runs: z.int().min(100).max(1_000_000).default(50_000),
    })
    .prefault({}),
});
export type GatewayConfig = z.infer<typeof GatewayConfig>;
export type GatewayConfigInput = z.input<typeof GatewayConfig>;

/** Scheme, host and port alone, in small letters, without the port that the scheme means anyway. */
const ORIGIN = /^https?:\/\/(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/;
const DEFAULT_PORT = /^(?:https:.*:443|http:.*:80)$/;

/** An origin exactly as browsers name it in `Origin` (RFC 6454 §6.2): no path, no wildcard. */
const Origin = z
  .string()
  .max(300)
  .refine(
    (origin) => ORIGIN.test(origin) && !DEFAULT_PORT.test(origin),
    'must be an origin as browsers write it: scheme, host and port alone, such as https://temporal.example.com',
  );

/** Settings of `countersign codec-server`, by which Temporal UI and the `temporal` command read encrypted runs. */
export const CodecServerConfig = z.strictObject({
  /** The address to listen on; 0.0.0.0 means every address of the machine. */
  host: z.string().min(1).default('127.0.0.1'),
  port: z.int().min(0).max(65_535).default(8236),
  proxies: Proxies,
  /** Whose access tokens are believed: those that Temporal UI gets. Default: `gateway.oidc`. */
  oidc: OidcConfig.optional(),
  /** For development: everybody who reaches the port may read. Only on a loopback address. */
  development: z.literal(true).optional(),
  /** Origins of Temporal UI. Pages of other origins get no answer that their browser lets them read. */
  origins: z.array(Origin).max(20).default([]),
  /** Who may read. Nobody is named by default. */
  may: z.strictObject(people).prefault({}),
  /** Tenants whose people may read. A payload does not say of which tenant it is. Default: `tenant` of the provider. */
  tenants: z.array(Identifier).min(1).max(100).optional(),
  /** Address at which Prometheus scrapes the codec server; nobody signs in there, so keep it on an inner address. */
  metrics: z.strictObject({ prometheus: SocketAddress }).optional(),
  limits: z
    .strictObject({
      /** Temporal UI sends the payloads of one event, the `temporal` command those of one message. */
      bodyBytes: z.int().min(1_024).max(67_108_864).default(8_388_608),
      /** Counted for each person; for each address where nobody is known. A page of Temporal UI sends some hundred. */
      requestsPerMinute: z.int().min(1).max(1_000_000).default(6_000),
      /** A request must arrive whole in this time. */
      requestSeconds: z.int().min(1).max(600).default(30),
      connections: z.int().min(1).max(100_000).default(200),
    })
    .prefault({}),
});
export type CodecServerConfig = z.infer<typeof CodecServerConfig>;
export type CodecServerConfigInput = z.input<typeof CodecServerConfig>;
