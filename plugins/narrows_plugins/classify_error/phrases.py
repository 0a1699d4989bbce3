"""Openings of provider messages, as data: how a message begins says what it means.

Every phrase is anchored at the first word, and a slot holds one word at most, so that text a provider echoes from the
prompt can never be matched: it always comes after the provider's own words. Phrases that may move a request on are told
literally; the looser ones all stop it. The order is part of the rule: throttling before size ("too many tokens, please
wait"), money before keys.

Messages are read through `opening`: lower case, straight quotes, one space, without the wrappers that gateways put in front.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from narrows_plugins.classify_error.verdicts import (
    BAD_KEY,
    BROKEN,
    INVALID,
    MISSING,
    NO_MONEY,
    REFUSED,
    THROTTLED,
    TIMED_OUT,
    TOO_LONG,
    USED_UP,
    Verdict,
)
from narrows_plugins.classify_error.wrappers import unwrapped

_CLIP = 600
_QUOTES = str.maketrans('\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u00b4`"\u00a0', "'''''''''' ")
_SPACES = re.compile(r"\s+")


def opening(message: str) -> str:
    """The message as the phrases expect it: the provider's own first words."""
    first_line = message[:_CLIP].strip().partition("\n")[0]
    return unwrapped(_SPACES.sub(" ", first_line.translate(_QUOTES)).strip().lower())[0]


@dataclass(frozen=True, slots=True)
class Phrases:
    """Openings with one verdict. `unless`: statuses at which they say nothing."""

    verdict: Verdict
    pattern: re.Pattern[str]
    unless: frozenset[int] = frozenset()


def _phrases(verdict: Verdict, *openings: str, unless: frozenset[int] = frozenset()) -> Phrases:
    return Phrases(verdict, re.compile("|".join(f"(?:{opening})" for opening in openings)), unless)


_CALLERS_FAULT = frozenset({400, 404, 405, 413, 422})
"""Statuses by which a provider blames the request: no text about its own state outweighs them."""

RULES: tuple[Phrases, ...] = (
    _phrases(
        TOO_LONG,  # the two that begin as throttling does
        r"too many tokens(?::| in )",
        r"tokens in (?:the )?(?:request|prompt) (?:more|greater|exceed)",
        unless=frozenset({429}),
    ),
    _phrases(
        THROTTLED,
        r"(?:(?:the|your|this|api|global|user|account|organization|project|workspace|team|key|model|provider|request|requests"
        r"|token|tokens|upstream|daily|hourly) )*rate[ -]?limit(?:s|ed)?\b",
        r"[\w.:/@-]+ is temporarily rate[ -]limited",
        r"you (?:are|were|have been)(?: being)? (?:rate[ -]?limited|throttled|sending requests too)",
        r"(?:we're|we are) receiving too many requests",
        r"(?:you have sent |you've sent )?too many (?:concurrent |pending |outstanding )?(?:requests|tokens|connections)\b",
        r"(?:this|the|your) request would exceed (?:your|the) \S+ (?:\S+ )?rate limit",
        r"number of (?:\w+ )?tokens has exceeded your (?:\w+ )*rate limit",
        r"(?:tokens?|requests?) per (?:second|minute|hour|day) (?:limit|quota) (?:is |was )?(?:exceeded|reached)",
        r"request rate increased too quickly",
        r"requests? to the \S+ operation under azure openai api version \S+ have exceeded (?:the )?\w+ rate limit",
        r"requests? (?:was |were |has been |have been )?throttl",
        r"throttl(?:ed|ing)\b",
        r"(?:request|input) too large for \S+ in organization \S+ (?:service tier \S+ )?on (?:tokens|requests) per",
        r"(?:the |your )?(?:max(?:imum)? )?(?:organization )?concurren(?:cy|t requests?) (?:limit|quota)",
        r"(?:quota exceeded for|exceeded) \S*(?:per_minute|per minute|requests_per|tokens_per)",
        r"(?:the )?(?:model's |account's )?allocated quota exceeded",
        r"out of call volume quota",
        r"no deployments available for selected model, try again in \d",
        r"(?:the )?resource (?:has been )?exhausted",
        r"(?:\w+ )?usage limit reached[.,;]? (?:please )?(?:try again|retry|wait|resets?|available)(?: in| after)? "
        r"\d+ ?(?:s|seconds?|m|min|minutes?)\b",
        r"(?:请求|调用|访问)(?:过于频繁|频率过高|速率)|您当前使用该 ?api ?的(?:并发数|频率)|该 ?api ?已触发流量限制|您的账户已达到速率限制",
    ),
    _phrases(
        USED_UP,
        r"(?:(?:you|you've|you have|your (?:account|organization|team|plan)(?: has)?) )?(?:reached|hit|exceeded)"
        r" (?:your|its|the) (?:\w+ ){0,4}usage limits?",
        r"(?:the )?(?:\w+ )?usage limit (?:has been |was )?(?:reached|exceeded)",
        r"已达到 ?\S+ ?(?:\S+ )?的使用上限|您已达到每[周月]",
    ),
    _phrases(
        NO_MONEY,
        r"(?:your )?(?:account )?(?:has )?insufficient (?:account )?(?:user )?(?:balance|credits?|funds|quota)",
        r"you (?:have )?(?:exceeded|hit|reached) your (?:current|monthly) (?:quota|included credits|spend|budget)",
        r"you(?:'ve| have)? (?:run|are|were)? ?out of (?:\w+ ){0,3}(?:credits?|funds|usage|balance|quota)",
        r"you're out of (?:\w+ ){0,3}(?:credits?|funds|usage|balance|quota)",
        r"you (?:do not|don't) have (?:enough|any|sufficient) (?:\w+ )?(?:credits?|funds|balance|quota)",
        r"(?:not enough|no) (?:\w+ )?(?:credits?|balance|funds|quota)\b",
        r"your team \S+ has (?:either )?(?:used|run out|reached|exhausted)",
        r"your (?:prepaid |prepayment )?(?:account )?(?:credit|credits|balance|credit balance|quota) (?:is|are|has|have) ",
        r"(?:this request requires )?more credits",
        r"billing (?:hard limit|is not|has not|account|not)",
        r"payment (?:is )?required",
        r"(?:your |the )?(?:account|organization) \S+ (?:is )?suspended",
        r"(?:access denied, please make sure )?(?:your |the )?(?:account|user) is (?:in arrears|in good standing|overdue|past due)",
        r"(?:the |your )?(?:key|api key|budget|spend|spending|monthly|weekly|credit|project|workspace)(?: \w+)? (?:limit )?(?:has been )?"
        r"(?:limit|exceeded|reached)",
        r"(?:the )?(?:linked )?organization has reached (?:the|a|its) spend",
        r"(?:the |your )?free (?:allocated |tier )?(?:quota|credits|trial)",
        r"(?:your |the )?(?:subscription|trial|plan|membership)\b(?: \w+){0,3} (?:expired|ended|does not include)",
        r"exceededbudget",
        r"余额不足|(?:您的)?账户(?:余额|已欠费)|欠费|(?:用户|账户|令牌|该令牌)?额度(?:不足|已用尽)|预扣费额度失败",
    ),
    _phrases(
        BAD_KEY,
        r"(?:invalid|incorrect|missing|no|wrong|expired|malformed|bad) (?:proxy )?(?:server )?(?:\w+ )?"
        r"(?:api[ -]?keys?|x-api-key|api token|access token|auth(?:entication|orization)?|credentials?|bearer|proxy server token)",
        r"(?:the |your |this |provided |the provided )?api[ -]?key\b(?: \S+)? (?:not|expired|is|was|has|does|provided|appears|required"
        r"|missing|invalid|creator)",
        r"(?:the|your|this) api key's ",
        r"you (?:didn't|did not|must) provide an api key",
        r"(?:your )?authentication (?:failed|required|is required|credentials)",
        r"(?:request is |you are )?(?:unauthorized|unauthenticated|not authenticated)\b",
        r"(?:access denied due to )?invalid subscription key",
        r"(?:the |your )?(?:access|security|auth|oauth|bearer|session) ?token ",
        r"oauth (?:token|authentication) ",
        r"(?:this|your|the) (?:organization|project|team|account|access|workspace)(?: \S+)? "
        r"(?:has been |is |was |must be |does not have |is not |isn't )"
        r"(?:disabled|on hold|deactivated|restricted|verified|terminated|banned|locked|blocked|access|allowed|authorized|permitted)",
        r"access (?:has been )?terminated",
        r"(?:the|your) \S+ account associated with this api key",
        r"you must be a member of an organization",
        r"user not found\b",
        r"country, region,? or territory",
        r"(?:your |the )?(?:user )?(?:location|region|country) is not supported",
        r"your request was made from an ip address",
        r"project \S+ (?:does not have access|is not)",
        r"you (?:don't|do not) have access to the (?:model with|organization|project)",
        r"you have insufficient permissions",
        r"model access is denied",
        r"model use case details",
        r"permission \S+ denied on resource",
        r"the principal \S+ lacks",
        r"(?:\w+ ){1,4}api has not been used in project",
        r"身份验证失败|无效的令牌|令牌(?:无效|已过期)|api ?key ?(?:无效|错误)|未提供令牌|您的账户(?:不存在|已被锁定|当前处于非活动)",
    ),
    _phrases(
        REFUSED,
        r"(?:the |this |your |my )?(?:\w+ )?(?:response|output|content|prompt|input|request|message|image|completion)s? "
        r"(?:was |were |has been |have been |is |are )?(?:blocked|flagged|filtered|disallowed)\b",
        r"(?:the |your )?request was rejected (?:because it was considered|as a result of|by|due to) (?:our |the )?"
        r"(?:high[ -]risk|safety|content|moderation)",
        r"invalid prompt: (?:your|the) prompt was flagged",
        r"\S+ requires moderation on",
        r"(?:the |this |your )?(?:content|prompt|request|input|message) (?:may )?(?:violates?|exists risk|be in violation)",
        r"(?:the |this |your )?(?:input|output|prompt|request|content|text|image)(?: \w+){0,2} (?:may |might )?contains? "
        r"(?:\w+ )?(?:inappropriate|content that|sensitive|unsafe|harmful|prohibited)",
        r"(?:the )?system detected potentially unsafe",
        r"(?:input|output)(?: new)?_sensitive|(?:input|output) (?:is )?(?:new )?sensitive",
        r"your task failed as a result of our safety",
        r"(?:the )?(?:response|responses|output) cannot be generated due to",
        r"(?:this|your) (?:request|prompt) (?:triggers?|triggered|was detected)",
        r"(?:detected|prohibited|unsafe|harmful|inappropriate) (?:\w+ )?content\b",
        r"content (?:policy|management|moderation|filter|safety)",
        r"系统检测到|(?:输入|输出|内容|提示)\S{0,6}(?:敏感|违规|不合规|不安全)|敏感词",
    ),
    _phrases(
        INVALID,  # an output cap
        r"(?:the |requested )?'?max(?:imum)?[_ ](?:output[_ ]|completion[_ ]|new[_ ])?tokens\b",
    ),
    _phrases(
        TOO_LONG,
        r"(?:this|the) (?:model|endpoint)(?:'s)?(?: maximum| max)? (?:context|prompt|input) (?:length|window|size|limit)",
        r"(?:this|the) (?:model|endpoint)'s max(?:imum)? \w+ (?:length|window)",
        r"(?:your |the |this |total )*(?:(?:decoder|encoder|engine|user|combined|estimated|current) )?"
        r"(?:input|prompt|request|requests|messages?|conversation|context|inputs|tokens)"
        r"(?: \(\d+ tokens?\)| \((?:total )?length \d+\)| \(\d+\)| \d+)?"
        r"(?: (?:token|tokens|count|length|size|window|payload|body|text|content|messages?|data|prompt|history)){0,3}"
        r"(?: \(\d+(?: tokens)?\)| (?:of )?\d+)? (?:is |are |was |has |have )?"
        r"(?:exceeds?|exceeded|exceeding|too long|too large|longer than|larger than|greater than)\b",
        r"(?:requested|you requested|prompt contains|prompt has|input has|given) \d+ (?:\w+ )?tokens",
        r"requested token count exceeds",
        r"please reduce the (?:length|size)",
        r"input length and 'max_tokens' exceed",
        r"current length is \d+",
        r"(?:the )?maximum input length is",
        r"'?inputs'? (?:must have less than|tokens \+ 'max_new_tokens' must be)",
        r"trying to keep the first \d+ tokens",
        r"(?:the )?number of tokens to keep from the initial prompt",
        r"range of input length should be",
        r"the max input characters",
        r"(?:invalid )?'(?:messages|input|prompt)\S*: (?:string|array) too long",
        r"(?:content|payload|entity|request entity|request body) (?:is )?too large",
        r"(?:the )?token limit (?:is |was )?exceeded",
        r"(?:prompt|输入|上下文|请求)\S{0,6}(?:超长|超过|过长)|超过最大长度|上下文长度",
        unless=frozenset({429}),
    ),
    _phrases(
        INVALID,  # what a 404 may say without the endpoint being dead, and what a 5xx may say of the request
        r"no endpoints (?:found|available) that",
        r"previous response |(?:conversation|file|thread|item|response) \S+ (?:was )?not found",
        r"(?:unknown|unsupported|unrecognized|missing required) (?:request argument|parameter|argument|field)",
    ),
    _phrases(
        MISSING,
        r"(?:the |requested |publisher |the requested )*model(?: \S+)?(?: is| was| has been| does|:)? "
        r"(?:not (?:found|exist|available|supported|valid)|no longer|deprecated|decommissioned|retired|removed|shut down)",
        r"(?:the )?model_not_found|model not exist",
        r"\S+ is not a valid model",
        r"(?:unknown|no such|unsupported|invalid) model\b",
        r"(?:\S+: )?invalid model name passed",
        r"unable to access model",
        r"the api deployment for this resource",
        r"(?:deployment|engine) \S+ (?:was )?not found",
        r"this model version has reached",
        r"no endpoints (?:found|available)",
        r"no allowed providers",
        r"(?:invalid|unknown) (?:request )?url",
        r"unexpected endpoint or method",
        r"模型不存在|模型\S{0,20}(?:不存在|已下线)",
    ),
    _phrases(
        TIMED_OUT,
        r"(?:(?:the|your|our|upstream|model|provider|gateway|inference|server|client|generation) )*"
        r"(?:request|operation|connection|response|call|inference|generation)?(?: to \w+)? ?(?:has |was )?"
        r"(?:timed out|timeout\b(?! (?:must|while|parameter|value|should)))",
        r"(?:model has )?timed out",
        r"(?:the )?(?:context )?deadline (?:expired|exceeded)",
        unless=_CALLERS_FAULT,
    ),
    _phrases(
        BROKEN,
        r"(?:(?:the|this|that|our|model|server|engine|service|system|currently|temporarily) )*(?:is |are )?"
        r"(?:currently |temporarily )?(?:overloaded|busy|at capacity|out of capacity)\b",
        r"(?:\w+ )?(?:service )?tier capacity exceeded",
        r"(?:the )?model (?:\S+ )?(?:is )?(?:currently )?loading|loading model",
        r"no healthy upstream|upstream connect error|bad gateway|internal server error",
        unless=_CALLERS_FAULT,
    ),
)


def by_message(message: str, status: int | None) -> Verdict | None:
    """What the message's first words say, given the status it came with, or None."""
    text = opening(message)
    for rule in RULES:
        if rule.pattern.match(text) is not None and (status is None or status not in rule.unless):
            return rule.verdict
    return None
