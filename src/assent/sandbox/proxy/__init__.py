"""The way out of a sandbox: a filtering HTTP proxy, for commands that may reach some hosts.

Only code that runs such a command imports this: it brings asyncio with it.
"""

from assent.sandbox.proxy.proxy import Failure as Failure
from assent.sandbox.proxy.proxy import Proxy as Proxy
from assent.sandbox.proxy.told import ProxyLimits as ProxyLimits
from assent.sandbox.proxy.told import Told as Told
