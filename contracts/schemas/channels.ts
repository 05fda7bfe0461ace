/** Channels through which people are told of requests, as an operator configures them. No run knows them. */
import { z } from 'zod';
import { HttpUrl, Identifier, Name, Secret } from './json.ts';

/** Gathers for so long what runs have to tell into one message. Absent: what one run tells in one moment. */
const digest = z.strictObject({ seconds: z.int().min(1).max(86_400) }).optional();

/** Time limit of one try. */
const timeoutSeconds = z.int().min(1).max(30).default(10);

/** A secret of Standard Webhooks: `whsec_` for HMAC-SHA256, `whsk_` for Ed25519. */
const WebhookSecret = z
  .string()
  .regex(
    /^(?:whsec_[A-Za-z0-9+/]{32,86}={0,2}|whsk_[A-Za-z0-9+/]{43,86}={0,2})$/,
    'must be whsec_ and 24 to 64 bytes in base64, or whsk_ and an Ed25519 key in base64',
  );

export const WebhookChannel = z.strictObject({
  kind: z.literal('webhook'),
  /** Not shown in errors and logs. */
  url: HttpUrl,
  secret: WebhookSecret,
  timeoutSeconds,
  digest,
});
export type WebhookChannel = z.infer<typeof WebhookChannel>;

const Address = z.email().max(254);

export const MailChannel = z.strictObject({
  kind: z.literal('mail'),
  host: z.union([z.hostname(), z.ipv4(), z.ipv6()]),
  port: z.int().min(1).max(65_535).default(587),
  /** `none`: in clear, to this machine only, or where `egress.allowInsecure` is set. */
  tls: z.enum(['starttls', 'implicit', 'none']).default('starttls'),
  user: z.string().min(1).optional(),
  password: Secret.optional(),
  from: Address,
  /** Gets every message of the channel, whoever it is for. */
  to: z.array(Address).max(50).default([]),
  people: z.record(Identifier, Address).default({}),
  groups: z.record(Identifier, z.array(Address).min(1).max(50)).default({}),
  timeoutSeconds,
  digest,
});
export type MailChannel = z.infer<typeof MailChannel>;

export const SlackMember = z.string().regex(/^[UW][A-Z0-9]{2,20}$/, 'must be a member id, such as U024BE7LH');

/** Member and group ids of Slack, which are mentioned where a message is for them. */
const mentions = {
  people: z.record(Identifier, SlackMember).default({}),
  groups: z
    .record(Identifier, z.string().regex(/^S[A-Z0-9]{2,20}$/, 'must be the id of a user group, such as S0614TZR7'))
    .default({}),
};

export const SlackChannel = z.strictObject({
  kind: z.literal('slack'),
  /** Token of a bot with `chat:write`; with `channels:history` (or `groups:history`) no message comes twice. */
  token: Secret,
  channel: z.string().regex(/^[CDG][A-Z0-9]{2,20}$/, 'must be the id of a conversation, such as C024BE91L'),
  /** Messages have buttons, which a gateway with `gateway.slack` answers. */
  buttons: z.boolean().default(false),
  apiUrl: HttpUrl.default('https://slack.com/api'),
  ...mentions,
  timeoutSeconds,
  digest,
});
export type SlackChannel = z.infer<typeof SlackChannel>;

export const SlackWebhookChannel = z.strictObject({
  kind: z.literal('slack-webhook'),
  /** An incoming webhook. Whoever knows the address can post: it is a secret. */
  webhookUrl: HttpUrl,
  ...mentions,
  timeoutSeconds,
  digest,
});
export type SlackWebhookChannel = z.infer<typeof SlackWebhookChannel>;

export const Channel = z.discriminatedUnion('kind', [WebhookChannel, MailChannel, SlackChannel, SlackWebhookChannel]);
export type Channel = z.infer<typeof Channel>;

export const NotifyConfig = z.strictObject({
  /** Page about a request; `{namespace}`, `{run}` and `{call}` are filled in. It gives no right. Absent: no link. */
  page: z
    .string()
    .max(1_000)
    .regex(/^https?:\/\/[^\s{}]+(?:\{(?:namespace|run|call)\}[^\s{}]*)*$/, 'must be a URL, with {run} and {call} in it')
    .optional(),
  channels: z.record(Name, Channel).default({}),
});
export type NotifyConfig = z.infer<typeof NotifyConfig>;
