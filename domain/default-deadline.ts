/** 24 hours, see docs/adr/0010. Apart from the judge, which no workflow needs in its bundle. */
export const DEFAULT_DEADLINE_SECONDS = 86_400;
